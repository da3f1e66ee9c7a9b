#!/usr/bin/env bash
# The replay buffers and learners that ours are measured beside, in a virtual environment of their own: .peers
# (`make bench-peers`). Beside TorchRL, Stable-Baselines3 and SBX, of LeRobot only the package itself: its dependencies for
# data sets, cameras and motors (2 GB, and a PyTorch older than ours) are not what is measured, and gather.py and
# updates.py do without them.
set -eu

python=${1:?the interpreter that makes the environment}
here=$(dirname "$0")
peers=$here/../.peers
torch_cpu_index=https://download.pytorch.org/whl/cpu
pinned=$(mktemp)
trap 'rm -f "$pinned"' EXIT
cat > "$pinned" <<END
torch==2.13.0
torchrl==0.14.1
tensordict<0.15
lerobot==0.4.4
stable-baselines3==2.9.2
sbx-rl==0.28.0
jax==0.10.2
draccus==0.10.0
END

"$python" -m venv "$peers"
pip="$peers/bin/python -m pip --disable-pip-version-check"
if "$python" -c "import urllib.request; urllib.request.urlopen('$torch_cpu_index/torch/', timeout=10)" 2>/dev/null; then
    $pip install --no-deps --index-url "$torch_cpu_index" -c "$pinned" torch
fi
$pip install -c "$pinned" torch torchrl stable-baselines3 sbx-rl tqdm 'huggingface_hub<0.36' numpy
$pip install -c "$pinned" --no-deps lerobot
$pip install -c "$pinned" draccus einops safetensors
"$peers/bin/python" "$here/gather.py" --check
TORCHDYNAMO_DISABLE=1 "$peers/bin/python" "$here/updates.py" --check
