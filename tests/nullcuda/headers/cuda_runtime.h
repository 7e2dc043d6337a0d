// nccl.h needs of it what the host calls.
#pragma once
#include <cuda_runtime_api.h>
