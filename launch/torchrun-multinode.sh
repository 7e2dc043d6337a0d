#!/usr/bin/env bash
# One run over several nodes without a scheduler: the same on each node, with its own number.
#   NODES=2 NODE_RANK=0 RENDEZVOUS=10.1.0.1:29500 INTERFACE=ib0 launch/torchrun-multinode.sh gpus=16 batch_size=64
# (`resnetx train launcher=torchrun nodes=2 node_rank=0 rendezvous=10.1.0.1:29500 gpus=16 ...` does the same, checks the
# settings first, and records on node 0 runs that are killed or hang; `--dry-run` prints its torchrun.)
set -euo pipefail
: "${NODES:?}" "${NODE_RANK:?}" "${RENDEZVOUS:?HOST:PORT of node 0}"
gpus=1
for word in "$@"; do [[ $word != gpus=* ]] || gpus=${word#gpus=}; done
((gpus % NODES == 0)) || { echo "torchrun-multinode.sh: gpus=$gpus does not divide over $NODES nodes" >&2; exit 2; }
# The port is open to whoever reaches it: use a network of the nodes alone (docs/security.md).
[ -z "${INTERFACE-}" ] || export GLOO_SOCKET_IFNAME=$INTERFACE NCCL_SOCKET_IFNAME=$INTERFACE
# Ranks take no modules from the folder that they are started in.
exec env PYTHONSAFEPATH=1 torchrun --nnodes="$NODES" --node-rank="$NODE_RANK" --rdzv-backend=static --master-addr="${RENDEZVOUS%:*}" \
  --master-port="${RENDEZVOUS##*:}" --max-restarts=0 --nproc-per-node=$((gpus / NODES)) -m resnetx.train "$@"
