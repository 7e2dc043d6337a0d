// nccl.h names these types and uses none here.
#pragma once
typedef struct { unsigned short bits; } __half;
