#!/usr/bin/env bash
# The first day on a GPU machine, in the order of docs/gpu.md:   bash launch/gpu_day.sh [first] [--dry-run]
# A step that succeeded is skipped the next time, and studies resume: run it again after any interruption.
# "first" runs only the steps with a time limit, which take at most 10 minutes together.
# SYSTEM: the system to predict; GPUS: rank counts; ONE, STUDY: names or YAML files of studies on one GPU and on several;
# RESULTS: folder; MORE, TRACE, BENCH: further settings of sweeps, of the trace, of the bench.
set -uo pipefail
cd "$(dirname "$0")/.."
command -v resnetx >/dev/null || PATH="$PWD/.venv/bin:$PATH"  # an active environment comes first
first='' dry=''
for word in "$@"; do
  case $word in
    first) first=1 ;;
    --dry-run) dry=1 ;;
    *) echo "launch/gpu_day.sh: $word: expected first, --dry-run or nothing" >&2; exit 2 ;;
  esac
done
facts=$(python -c 'from resnetx.host import node_name as n; from resnetx.measure.machine.visible_gpus import gpus_here as g
print(n(), ",".join(str(k) for k in (1, 2, 4, 8, 16) if k <= max(g(), 1)))') || exit
read -r node counts <<<"$facts"
gpus=${GPUS:-$counts} results=${RESULTS:-results} one=${ONE:-paper-resnetx} study=${STUDY:-paper}
day=$results/$node/gpu_day named=$(basename "${study%.y*ml}")
read -ra more <<<"${MORE:-}"
read -ra trace <<<"${TRACE:-}"
read -ra bench <<<"${BENCH:-}"
trap 'echo; echo "launch/gpu_day.sh: interrupted; run it again to resume" >&2; exit 130' INT TERM HUP
[ "$dry" ] || mkdir -p "$day" || exit
shown=() failed=0

step() {  # NAME LIMIT_s (0: none) COMMAND...
  local name=$1 limit=$2 status start=$SECONDS
  shift 2
  if [ "$dry" ]; then printf '%-9s %s\n' "$name" "$*"; return; fi
  if [ -e "$day/$name.done" ]; then shown+=("$name|done earlier"); return; fi
  printf '\n==== %s: %s\n' "$name" "$*"
  timeout --foreground "$limit" "$@" | tee "$day/$name.log"
  status=${PIPESTATUS[0]}
  case $status in
    0) touch "$day/$name.done"; shown+=("$name|done in $((SECONDS - start)) s") ;;
    124) failed=1; shown+=("$name|not finished within $limit s: run it again to resume") ;;
    *) failed=1; shown+=("$name|FAILED with status $status, see above") ;;
  esac
}

sweep() { step "$1" "$2" resnetx sweep "results=$results" input=synthetic "${@:3}" "${more[@]}"; }

step doctor 60 resnetx doctor "results=$results"
step tests 240 env "RESNETX_PASSED=$day/passed.txt" pytest -m gpu tests/gpu
step predict 60 resnetx predict "systems=[${SYSTEM:-dgx-h200}]" "study=$study" "gpus=[$gpus]" "out=$day/predicted"
sweep rates 240 "study=$one" "gpus=[1]" repeats=1 twins=0 budget=200s
if [ -z "$first" ]; then
  sweep repeats 0 "study=$one" "gpus=[1]"
  sweep bf16 0 "study=$one" "gpus=[1]" precision=bf16 "results=$results/bf16"
  step trace 0 resnetx trace input=synthetic "results=$results" "study=$study" "gpus=[1,2,4,8]" "${trace[@]}"
  if [ "$gpus" != 1 ]; then
    step bench 0 resnetx bench "results=$results" "study=$study" "gpus=[${gpus#1,}]" "${bench[@]}"
  fi
  sweep scaling 0 "study=$study" "gpus=[$gpus]"
  rm -f "$day/compare.done"  # takes a second; compares what has been measured so far
  step compare 0 resnetx compare "$day/predicted/prediction.json" "$results/$node/$named"
fi
[ "$dry" ] && exit
printf '\n'
printf '%s\n' "${shown[@]}" | while IFS='|' read -r name what; do printf '%-9s %s\n' "$name" "$what"; done
exit "$failed"
