"""Warnings about readings: what literal readings of ranks make a reader wary of."""

from msgspec.structs import replace

from resnetx.measure.machine.readings import Readings, sensor_warnings
from resnetx.record import GpuSamples, HostLoad, LinkCounters, Unknown

POWER_CAP, HARDWARE, IDLE, CHOSEN, DISPLAY = 0x4, 0x8, 0x1, 0x2, 0x100


def samples_of(rank: int, reasons: list[int], clock_MHz: float = 1410) -> GpuSamples:
    count = len(reasons)
    return GpuSamples(
        rank=rank,
        time_s=[0.1 * index for index in range(count)],
        sm_clock_Hz=[clock_MHz * 1e6] * count,
        power_W=Unknown("not supported"),
        temperature_C=[50.0] * count,
        busy=[1.0] * count,
        throttle_reasons=reasons,
        energy_J=Unknown("not supported"),
    )


def warned(*samples: GpuSamples | Unknown, links: LinkCounters | None = None, foreign: float = 0.0) -> list[str]:
    """The codes and messages of the warnings for ranks with these samples."""
    readings = [Readings(part, links or Unknown("no links"), HostLoad(busy=1.0, foreign=foreign)) for part in samples]
    found = sensor_warnings(readings)
    assert all(warning.remedy for warning in found)
    return [f"{warning.code}: {warning.message}" for warning in found]


def test_quiet_readings_warn_of_nothing():
    assert warned(samples_of(0, [0, IDLE, CHOSEN, DISPLAY])) == []
    assert warned(Unknown("the run uses no GPU")) == []


def test_a_power_cap_warns_with_the_ranks_and_the_share():
    (message,) = warned(samples_of(0, [0, 0]), samples_of(1, [POWER_CAP, 0]), samples_of(2, [POWER_CAP, POWER_CAP]))
    assert message == "throttled: ranks 1, 2: power limit reduced the GPU's clock, up to 100% of the time"


def test_one_sample_of_hardware_slowdown_is_a_change_of_clock():
    assert warned(samples_of(0, [0, HARDWARE, 0])) == []
    assert len(warned(samples_of(0, [0, HARDWARE, HARDWARE]))) == 1


def test_clocks_that_differ_between_ranks_warn():
    assert warned(samples_of(0, [0], 1410), samples_of(1, [0], 1400)) == []
    (message,) = warned(samples_of(0, [0], 1410), samples_of(1, [0], 1200))
    assert message == "uneven-clocks: GPU clocks differ: rank 1 ran at 1200 MHz, rank 0 at 1410"


def test_reasons_that_are_not_known_warn_of_nothing():
    assert warned(replace(samples_of(0, [0]), throttle_reasons=Unknown("no"), sm_clock_Hz=Unknown("no"))) == []


def test_links_that_send_again_warn():
    none = Unknown("no NVLink is up")
    links = LinkCounters(rank=0, pcie_replays=4, nvlink_errors=none, nvlink_sent_bytes=0, nvlink_received_bytes=0)
    assert warned(samples_of(0, [0]), links=links) == ["link-errors: rank 0: 4 PCIe replays during the windows"]


def test_foreign_load_warns_above_a_tenth():
    assert warned(samples_of(0, [0]), foreign=0.09) == []
    (message,) = warned(samples_of(0, [0]), foreign=0.37)
    assert message == "foreign-load: other processes used 37% of the host's CPUs during the windows"
