#!/usr/bin/env bash
# One point by hand, straight under torchrun:   launch/local.sh 8 model=resnetx model.x=16 batch_size=64
# (`resnetx train gpus=8 ...` does the same, and also records runs that are killed or hang.)
set -euo pipefail
gpus=${1:?usage: launch/local.sh GPUS key=value ...}
shift
[[ $gpus =~ ^[0-9]+$ ]] || { echo "launch/local.sh: GPUS=$gpus: expected a number of ranks" >&2; exit 2; }
# torchrun's state is in a file, and it opens no port (docs/security.md), as --standalone would to all networks.
# PYTHONSAFEPATH: ranks take no modules from the folder that they are started in. The address: a host name that resolves to no address of this host makes ranks hang.
exec env PYTHONSAFEPATH=1 TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 torchrun --rdzv-backend=c10d --rdzv-conf=store_type=file \
  --local-addr=127.0.0.1 --max-restarts=0 --nproc-per-node="$gpus" -m resnetx.train "$@"
