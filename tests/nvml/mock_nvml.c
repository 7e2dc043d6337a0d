/* libnvidia-ml of a machine that is not there, for the real binding (pynvml) to load.
 *
 *     cc -shared -fPIC -o FOLDER/libnvidia-ml.so.1 mock_nvml.c
 *     LD_LIBRARY_PATH=FOLDER MOCK_NVML=MACHINE resnetx doctor
 *
 * MACHINE is a text file (machines.py writes it), a fact a line, its words parted by '|':
 *
 *     error|FUNCTION|CODE                 what this function returns, for all GPUs
 *     driver|VERSION
 *     gpu|NAME|UUID|BUS|MAJOR|MINOR|MEMORY_BYTES|POWER_LIMIT_mW|SM_MAX_MHz|MIG (-1: never heard of)|PCIE|WIDTH|FABRIC
 *     worn|GPU|LANES_NOW|REPLAYS|CRC      a GPU whose slot or links are not well
 *     failing|GPU|XID|ERRORS              while a program runs: an event (XID 0: none), and what each reading adds to CRC
 *     link|GPU|BUS_OF_THE_FAR_END         an NVLink that is up
 *     switched                            GPUs reach each other through NVSwitches
 *     level|A|B|NVML_TOPOLOGY_LEVEL       the nearest thing that two GPUs have in common, over PCIe
 *     process|GPU|PID|MEMORY_BYTES
 *     holds|MHz                           above it the power limit makes every clock go up and down; it is 15 n
 *
 * MOCK_NVML_CLOCKS names a file that keeps locked clocks, as the driver does: a line for each change, "0 1545" locks
 * GPU 0, "0 0" unlocks it.
 *     instance|GPU|UUID                   of a GPU that MIG divides
 *
 * FABRIC is the state that nvmlDeviceGetGpuFabricInfoV tells (0: the GPU has no fabric, 3: it is ready). Only functions
 * that resnetx calls are here, and those that torch looks for (c10/cuda/driver_api.h): what they call newly must be
 * added. Signatures are those of nvml.h.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

enum { SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7 };
enum { GPUS = 16, LINKS = 18, ERRORS = 16, PROCESSES = 16, LINE = 512 };

typedef struct {
    char name[96], uuid[96], bus[32];
    int major, minor;
    unsigned long long memory;
    unsigned int power_mW, sm_max;
    int mig;
    unsigned int pcie, width, fabric, replays, crc, width_now;
    int links, xid, more_errors;
    char far_ends[LINKS][32];
} Gpu;

static char driver[80] = "";
static Gpu gpus[GPUS];
static int count = 0, switched = 0;
static unsigned int holds = 0;
static int levels[GPUS][GPUS];
static struct { char function[96]; int code; } errors[ERRORS];
static int error_count = 0;
static struct { int gpu; unsigned int pid; unsigned long long memory; } processes[PROCESSES];
static int process_count = 0;
static Gpu instances[GPUS]; /* of these, only the UUID and the GPU that they are part of */
static Gpu *wholes[GPUS];
static int instance_count = 0;

/* ---- the machine ---- */

static char *next_word(char **rest) {
    char *word = *rest, *end = strchr(word, '|');
    if (end) { *end = 0; *rest = end + 1; } else { *rest = word + strlen(word); }
    return word;
}

static long long number(char **rest) { return atoll(next_word(rest)); }

static void copy(char *to, size_t size, const char *from) { snprintf(to, size, "%s", from); }

static void read_line(char *line) {
    char *rest = line, *kind = next_word(&rest);
    if (!strcmp(kind, "error")) {
        copy(errors[error_count].function, sizeof errors[0].function, next_word(&rest));
        errors[error_count++].code = number(&rest);
    } else if (!strcmp(kind, "driver")) {
        copy(driver, sizeof driver, rest);
    } else if (!strcmp(kind, "gpu")) {
        Gpu *gpu = &gpus[count++];
        copy(gpu->name, sizeof gpu->name, next_word(&rest));
        copy(gpu->uuid, sizeof gpu->uuid, next_word(&rest));
        copy(gpu->bus, sizeof gpu->bus, next_word(&rest));
        gpu->major = number(&rest);
        gpu->minor = number(&rest);
        gpu->memory = number(&rest);
        gpu->power_mW = number(&rest);
        gpu->sm_max = number(&rest);
        gpu->mig = number(&rest);
        gpu->pcie = number(&rest);
        gpu->width = number(&rest);
        gpu->fabric = number(&rest);
        gpu->width_now = gpu->width;
    } else if (!strcmp(kind, "worn")) {
        Gpu *gpu = &gpus[number(&rest)];
        gpu->width_now = number(&rest);
        gpu->replays = number(&rest);
        gpu->crc = number(&rest);
    } else if (!strcmp(kind, "failing")) {
        Gpu *gpu = &gpus[number(&rest)];
        gpu->xid = number(&rest);
        gpu->more_errors = number(&rest);
    } else if (!strcmp(kind, "link")) {
        Gpu *gpu = &gpus[number(&rest)];
        copy(gpu->far_ends[gpu->links++], 32, rest);
    } else if (!strcmp(kind, "switched")) {
        switched = 1;
    } else if (!strcmp(kind, "holds")) {
        holds = number(&rest);
    } else if (!strcmp(kind, "level")) {
        int a = number(&rest), b = number(&rest);
        levels[a][b] = levels[b][a] = number(&rest);
    } else if (!strcmp(kind, "instance")) {
        wholes[instance_count] = &gpus[number(&rest)];
        copy(instances[instance_count++].uuid, sizeof instances[0].uuid, rest);
    } else if (!strcmp(kind, "process")) {
        processes[process_count].gpu = number(&rest);
        processes[process_count].pid = number(&rest);
        processes[process_count++].memory = number(&rest);
    }
}

__attribute__((constructor)) static void read_machine(void) {
    char line[LINE];
    const char *path = getenv("MOCK_NVML");
    FILE *file = path ? fopen(path, "r") : NULL;
    while (file && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        read_line(line);
    }
    if (file) fclose(file);
}

static int refused(const char *function) {
    for (int i = 0; i < error_count; i++)
        if (!strcmp(errors[i].function, function)) return errors[i].code;
    return SUCCESS;
}

#define MAY_FAIL do { int code = refused(__func__); if (code) return code; } while (0)
#define GIVE(pointer, value) do { MAY_FAIL; *(pointer) = (value); return SUCCESS; } while (0)

/* ---- the library ---- */

int nvmlInitWithFlags(unsigned int flags) { (void)flags; MAY_FAIL; return SUCCESS; }
int nvmlInit_v2(void) { return refused("nvmlInitWithFlags"); }
int nvmlShutdown(void) { return SUCCESS; }

const char *nvmlErrorString(int code) {
    switch (code) {
        case NOT_FOUND: return "Not Found";
        case NOT_SUPPORTED: return "Not Supported";
        case 4: return "Insufficient Permissions";
        case 9: return "Driver Not Loaded";
        case 15: return "GPU is lost";
        case 18: return "Driver/library version mismatch";
        default: return "Unknown Error";
    }
}

int nvmlSystemGetDriverVersion(char *text, unsigned int size) { MAY_FAIL; copy(text, size, driver); return SUCCESS; }
int nvmlSystemGetCudaDriverVersion_v2(int *version) { GIVE(version, 13000); }
int nvmlDeviceGetCount_v2(unsigned int *found) { GIVE(found, count); }

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, Gpu **gpu) {
    MAY_FAIL;
    if (index >= (unsigned int)count) return INVALID_ARGUMENT;
    *gpu = &gpus[index];
    return SUCCESS;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, Gpu **gpu) {
    MAY_FAIL;
    for (int i = 0; i < count; i++)
        if (!strcmp(gpus[i].uuid, uuid)) { *gpu = &gpus[i]; return SUCCESS; }
    for (int i = 0; i < instance_count; i++)
        if (!strcmp(instances[i].uuid, uuid)) { *gpu = &instances[i]; return SUCCESS; }
    return NOT_FOUND;
}

/* A bus id may have four digits of its domain or eight. */
int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, Gpu **gpu) {
    MAY_FAIL;
    size_t length = strlen(bus);
    for (int i = 0; i < count; i++) {
        size_t own = strlen(gpus[i].bus), end = own < length ? own : length;
        if (!strcasecmp(gpus[i].bus + own - end, bus + length - end)) { *gpu = &gpus[i]; return SUCCESS; }
    }
    return NOT_FOUND;
}

int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(Gpu *instance, Gpu **whole) {
    GIVE(whole, wholes[instance - instances]);
}

int nvmlDeviceGetMaxMigDeviceCount(Gpu *gpu, unsigned int *most) { GIVE(most, gpu->mig > 0 ? 7 : 0); }

int nvmlDeviceGetMigDeviceHandleByIndex(Gpu *gpu, unsigned int index, Gpu **instance) {
    MAY_FAIL;
    for (int i = 0; i < instance_count; i++)
        if (wholes[i] == gpu && index-- == 0) { *instance = &instances[i]; return SUCCESS; }
    return NOT_FOUND;
}

int nvmlDeviceGetName(Gpu *gpu, char *text, unsigned int size) { MAY_FAIL; copy(text, size, gpu->name); return SUCCESS; }
int nvmlDeviceGetUUID(Gpu *gpu, char *text, unsigned int size) { MAY_FAIL; copy(text, size, gpu->uuid); return SUCCESS; }

typedef struct {
    char legacy[16];
    unsigned int domain, bus, device, pci_device, pci_subsystem;
    char bus_id[32];
} Pci;

int nvmlDeviceGetPciInfo_v3(Gpu *gpu, Pci *pci) {
    MAY_FAIL;
    memset(pci, 0, sizeof *pci);
    copy(pci->bus_id, sizeof pci->bus_id, gpu->bus);
    return SUCCESS;
}

int nvmlDeviceGetCudaComputeCapability(Gpu *gpu, int *major, int *minor) {
    MAY_FAIL;
    *major = gpu->major;
    *minor = gpu->minor;
    return SUCCESS;
}

int nvmlDeviceGetMemoryInfo(Gpu *gpu, unsigned long long *total_free_used) {
    MAY_FAIL;
    total_free_used[0] = total_free_used[1] = gpu->memory;
    total_free_used[2] = 0;
    return SUCCESS;
}

int nvmlDeviceGetEnforcedPowerLimit(Gpu *gpu, unsigned int *limit) { GIVE(limit, gpu->power_mW); }
int nvmlDeviceGetMaxClockInfo(Gpu *gpu, int kind, unsigned int *MHz) { (void)kind; GIVE(MHz, gpu->sm_max); }
int nvmlDeviceGetPowerUsage(Gpu *gpu, unsigned int *power) { GIVE(power, gpu->power_mW / 2); }
int nvmlDeviceGetTemperature(Gpu *gpu, int kind, unsigned int *degrees) { (void)gpu, (void)kind; GIVE(degrees, 40); }

int nvmlDeviceGetUtilizationRates(Gpu *gpu, unsigned int *gpu_memory) {
    (void)gpu;
    MAY_FAIL;
    gpu_memory[0] = 100;
    gpu_memory[1] = 50;
    return SUCCESS;
}

/* ---- clocks ---- */

enum { CLOCK_STEP = 15, LEAST_CLOCK = 210, MEMORY_CLOCK = 2619, POWER_CAP = 4 };

int nvmlDeviceGetIndex(Gpu *gpu, unsigned int *index) { GIVE(index, gpu - gpus); }

static unsigned int locked(Gpu *gpu) {
    int at = 0, MHz = 0, last = 0;
    const char *path = getenv("MOCK_NVML_CLOCKS");
    FILE *file = path ? fopen(path, "r") : NULL;
    while (file && fscanf(file, "%d %d", &at, &MHz) == 2)
        if (at == gpu - gpus) last = MHz;
    if (file) fclose(file);
    return last;
}

static int set_clock(Gpu *gpu, unsigned int MHz) {
    const char *path = getenv("MOCK_NVML_CLOCKS");
    FILE *file = path ? fopen(path, "a") : NULL;
    if (!file) return NOT_SUPPORTED;
    fprintf(file, "%d %u\n", (int)(gpu - gpus), MHz);
    fclose(file);
    return SUCCESS;
}

int nvmlDeviceSetGpuLockedClocks(Gpu *gpu, unsigned int least, unsigned int most) {
    MAY_FAIL;
    if (gpu->major < 7) return NOT_SUPPORTED;
    return least == most && least ? set_clock(gpu, most) : INVALID_ARGUMENT;
}

int nvmlDeviceResetGpuLockedClocks(Gpu *gpu) {
    MAY_FAIL;
    return gpu->major < 7 ? NOT_SUPPORTED : set_clock(gpu, 0);
}

static unsigned int wanted(Gpu *gpu) {
    unsigned int MHz = locked(gpu);
    return MHz ? MHz : gpu->sm_max;
}

/* Where the power limit acts, two steps below what holds, one, none, one above, two: a reading each. */
int nvmlDeviceGetClockInfo(Gpu *gpu, int kind, unsigned int *MHz) {
    static unsigned int readings[GPUS];
    (void)kind;
    int step = (int)(readings[gpu - gpus]++ % 5) - 2;
    GIVE(MHz, holds && wanted(gpu) > holds ? holds + step * CLOCK_STEP : wanted(gpu));
}

int nvmlDeviceGetCurrentClocksEventReasons(Gpu *gpu, unsigned long long *mask) {
    GIVE(mask, holds && wanted(gpu) > holds ? POWER_CAP : 0);
}

int nvmlDeviceGetSupportedMemoryClocks(Gpu *gpu, unsigned int *size, unsigned int *MHz) {
    (void)gpu;
    MAY_FAIL;
    int fits = MHz && *size >= 1;
    *size = 1;
    if (fits) MHz[0] = MEMORY_CLOCK;
    return fits ? SUCCESS : INSUFFICIENT_SIZE;
}

int nvmlDeviceGetSupportedGraphicsClocks(Gpu *gpu, unsigned int memory, unsigned int *size, unsigned int *MHz) {
    MAY_FAIL;
    if (memory != MEMORY_CLOCK) return NOT_FOUND;
    unsigned int clocks = (gpu->sm_max - LEAST_CLOCK) / CLOCK_STEP + 1;
    int fits = MHz && *size >= clocks;
    *size = clocks;
    for (unsigned int i = 0; fits && i < clocks; i++) MHz[i] = gpu->sm_max - i * CLOCK_STEP;
    return fits ? SUCCESS : INSUFFICIENT_SIZE;
}

/* ---- what counts up ---- */

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + now.tv_nsec * 1e-9;
}

/* At half of the limit all the time, so that energy over time is the power that is told. */
int nvmlDeviceGetTotalEnergyConsumption(Gpu *gpu, unsigned long long *mJ) {
    GIVE(mJ, (unsigned long long)(seconds() * (gpu->power_mW / 2)));
}

int nvmlDeviceGetPcieReplayCounter(Gpu *gpu, unsigned int *replays) { GIVE(replays, gpu->replays); }

/* CRC errors of one kind (2) are those of the machine, all on the last link; of other kinds there are none. */
int nvmlDeviceGetNvLinkErrorCounter(Gpu *gpu, unsigned int link, int kind, unsigned long long *errors_) {
    int counts = kind == 2 && (int)link == gpu->links - 1;
    if (counts) gpu->crc += gpu->more_errors;
    GIVE(errors_, counts ? gpu->crc : 0);
}

/* ---- events: of each GPU that fails one, which comes at once ---- */

enum { XID_EVENT = 8, TIMEOUT = 10 };

typedef struct { Gpu *gpu; unsigned long long kind, data; unsigned int instance, compute_instance; } Event;
typedef struct { Gpu *gpus[GPUS]; int size; } Events;

int nvmlEventSetCreate(Events **events) { GIVE(events, calloc(1, sizeof **events)); }

int nvmlDeviceRegisterEvents(Gpu *gpu, unsigned long long kinds, Events *events) {
    MAY_FAIL;
    if (kinds & XID_EVENT) events->gpus[events->size++] = gpu;
    return SUCCESS;
}

int nvmlEventSetWait_v2(Events *events, Event *event, unsigned int timeout_ms) {
    MAY_FAIL;
    for (int i = 0; i < events->size; i++) {
        int xid = __atomic_exchange_n(&events->gpus[i]->xid, 0, __ATOMIC_SEQ_CST);
        if (!xid) continue;
        *event = (Event){events->gpus[i], XID_EVENT, xid, ~0u, ~0u};
        return SUCCESS;
    }
    struct timespec wait = {timeout_ms / 1000, timeout_ms % 1000 * 1000000L};
    nanosleep(&wait, NULL);
    return TIMEOUT;
}

int nvmlDeviceGetEccMode(Gpu *gpu, int *current, int *pending) {
    (void)gpu;
    MAY_FAIL;
    *current = *pending = 1;
    return SUCCESS;
}

int nvmlDeviceGetMigMode(Gpu *gpu, unsigned int *current, unsigned int *pending) {
    MAY_FAIL;
    if (gpu->mig < 0) return NOT_SUPPORTED;
    *current = *pending = gpu->mig;
    return SUCCESS;
}

int nvmlDeviceGetCurrPcieLinkGeneration(Gpu *gpu, unsigned int *found) { (void)gpu; GIVE(found, 1); }
int nvmlDeviceGetMaxPcieLinkGeneration(Gpu *gpu, unsigned int *found) { GIVE(found, gpu->pcie); }
int nvmlDeviceGetCurrPcieLinkWidth(Gpu *gpu, unsigned int *found) { GIVE(found, gpu->width_now); }
int nvmlDeviceGetMaxPcieLinkWidth(Gpu *gpu, unsigned int *found) { GIVE(found, gpu->width); }

int nvmlDeviceGetNvLinkState(Gpu *gpu, unsigned int link, int *up) {
    MAY_FAIL;
    if (link >= (unsigned int)gpu->links) return gpu->links ? INVALID_ARGUMENT : NOT_SUPPORTED;
    *up = 1;
    return SUCCESS;
}

int nvmlDeviceGetNvLinkRemotePciInfo_v2(Gpu *gpu, unsigned int link, Pci *pci) {
    MAY_FAIL;
    if (link >= (unsigned int)gpu->links) return INVALID_ARGUMENT;
    memset(pci, 0, sizeof *pci);
    copy(pci->bus_id, sizeof pci->bus_id, gpu->far_ends[link]);
    return SUCCESS;
}

int nvmlDeviceGetNvLinkRemoteDeviceType(Gpu *gpu, unsigned int link, int *type) {
    (void)gpu, (void)link;
    GIVE(type, switched ? 2 : 0); /* an NVSwitch, or a GPU */
}

int nvmlDeviceGetP2PStatus(Gpu *one, Gpu *other, int kind, int *status) {
    (void)one, (void)other, (void)kind;
    GIVE(status, switched ? 0 : 5); /* OK, or not supported */
}

int nvmlDeviceGetTopologyCommonAncestor(Gpu *one, Gpu *other, int *level) {
    GIVE(level, levels[one - gpus][other - gpus]);
}

typedef struct {
    unsigned int pid;
    unsigned long long memory;
    unsigned int gpu_instance, compute_instance;
} Process;

int nvmlDeviceGetComputeRunningProcesses_v3(Gpu *gpu, unsigned int *size, Process *found) {
    MAY_FAIL;
    unsigned int here = 0;
    for (int i = 0; i < process_count; i++) {
        if (&gpus[processes[i].gpu] != gpu) continue;
        if (found && here < *size) found[here] = (Process){processes[i].pid, processes[i].memory, ~0u, ~0u};
        here++;
    }
    int fits = found ? here <= *size : here == 0;
    *size = here;
    return fits ? SUCCESS : INSUFFICIENT_SIZE;
}

/* The first version, which torch asks for what else uses a GPU that has no memory left: no process that it knows. */
int nvmlDeviceGetComputeRunningProcesses(Gpu *gpu, unsigned int *size, void *found) {
    (void)gpu, (void)found;
    GIVE(size, 0);
}

typedef struct {
    unsigned int field, scope;
    long long timestamp, latency_us;
    unsigned int type;
    int status;
    unsigned long long value;
} Field;

/* The power of this instant; what NVLinks sent and received, in KiB: each GiB/s and link, since the machine began. */
int nvmlDeviceGetFieldValues(Gpu *gpu, int size, Field *fields) {
    MAY_FAIL;
    for (int i = 0; i < size; i++) {
        int known = fields[i].field == 186 || fields[i].field == 138 || fields[i].field == 139;
        fields[i].type = 3; /* unsigned long long */
        fields[i].status = known ? SUCCESS : NOT_SUPPORTED;
        fields[i].value = fields[i].field == 186 ? gpu->power_mW / 2 : (unsigned long long)(seconds() * (1 << 20));
    }
    return SUCCESS;
}

int nvmlDeviceGetJpgUtilization(Gpu *gpu, unsigned int *busy, unsigned int *period_us) {
    MAY_FAIL;
    if (gpu->major < 8) return NOT_SUPPORTED;
    *busy = 0;
    *period_us = 1000;
    return SUCCESS;
}

typedef struct {
    unsigned int version;
    unsigned char cluster[16];
    int status;
    unsigned int clique;
    unsigned char state;
    unsigned int health_mask;
    unsigned char health;
} Fabric;

int nvmlDeviceGetGpuFabricInfoV(Gpu *gpu, Fabric *fabric) {
    MAY_FAIL;
    fabric->status = SUCCESS;
    fabric->state = gpu->fabric;
    return SUCCESS;
}
