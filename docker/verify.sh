#!/usr/bin/env bash
# Build the CPU image without a container engine, and run vidload in it as its user: make docker-verify
#
# Needs root and Debian's buildah and debootstrap. Set, where they are needed:
#   MIRROR         Debian mirror for debootstrap
#   BASE_TAR       tar of a root file system to build on; made by debootstrap where there is none
#   VOLUMES        space-separated host:container[:ro] mounts of the build, for what pip's settings name
#   DOCKERFILE     docker/Dockerfile.cpu, or docker/Dockerfile with BUILD_ARGS that replace what is too large
#   BUILD_ARGS     space-separated NAME=value build arguments
# pip's settings in the environment (PIP_INDEX_URL, PIP_EXTRA_INDEX_URL, PIP_FIND_LINKS, PIP_CERT, PIP_DEFAULT_TIMEOUT)
# are handed to the build; folders and files that they name are mounted.
set -euo pipefail
cd "$(dirname "$0")/.."

build=${BUILD_DIR:-build/docker}
base_tar=${BASE_TAR:-$build/rootfs.tar}
dockerfile=${DOCKERFILE:-docker/Dockerfile.cpu}
base=localhost/vidload-base
image=localhost/vidload-verify
shm_kib=1024
export BUILDAH_ISOLATION=${BUILDAH_ISOLATION:-chroot} STORAGE_DRIVER=${STORAGE_DRIVER:-vfs}

fail() {
    echo "docker/verify.sh: $*" >&2
    exit 1
}

container=
scratch=
cleanup() {
    if [ -n "$container" ]; then buildah rm "$container" >/dev/null || true; fi
    if [ -n "$scratch" ]; then
        if mountpoint -q "$scratch/shm"; then umount "$scratch/shm" || true; fi
        rm -rf --one-file-system "$scratch"
    fi
}
trap cleanup EXIT

[ "$(id -u)" = 0 ] || fail "run it as root: debootstrap and chroot need it"
command -v buildah >/dev/null || fail "buildah is missing: apt-get install buildah"
scratch=$(mktemp -d)
mkdir -p "$build" "$scratch/shm" "$scratch/base"

step() { printf '\n== %s\n' "$*"; }

if [ ! -f "$base_tar" ]; then
    step "base: debootstrap"
    command -v debootstrap >/dev/null || fail "debootstrap is missing: apt-get install debootstrap"
    # Word splitting is wanted: no mirror, no argument.
    # shellcheck disable=SC2086
    debootstrap --variant=minbase bookworm "$scratch/rootfs" ${MIRROR:-} >"$build/debootstrap.log" 2>&1 ||
        fail "debootstrap failed: $build/debootstrap.log"
    tar -C "$scratch/rootfs" -cf "$base_tar.part" .
    mv "$base_tar.part" "$base_tar"
    rm -rf --one-file-system "$scratch/rootfs"
fi

step "base image from $base_tar"
if ! ln "$base_tar" "$scratch/base/rootfs.tar" 2>/dev/null; then cp "$base_tar" "$scratch/base/rootfs.tar"; fi
printf 'FROM scratch\nADD rootfs.tar /\nCMD ["sh"]\n' >"$scratch/base/Dockerfile"
buildah bud --quiet --layers --tag "$base" "$scratch/base"

options=(--layers --force-rm --format docker --network host --build-arg "BASE=$base")
# Elsewhere in the build than here: Debian's packages own the places where certificates usually lie.
mounted=0
for name in PIP_INDEX_URL PIP_EXTRA_INDEX_URL PIP_FIND_LINKS PIP_CERT PIP_DEFAULT_TIMEOUT; do
    value=
    for word in ${!name:-}; do
        if [ -e "$word" ]; then
            mounted=$((mounted + 1))
            options+=(--volume "$(realpath "$word"):/mnt/verify/$mounted:ro")
            word=/mnt/verify/$mounted
        fi
        value="$value${value:+ }$word"
    done
    if [ -n "$value" ]; then options+=(--build-arg "$name=$value"); fi
done
for volume in ${VOLUMES:-}; do options+=(--volume "$volume"); done
for argument in ${BUILD_ARGS:-}; do options+=(--build-arg "$argument"); done

step "build $dockerfile"
buildah bud "${options[@]}" --file "$dockerfile" --tag "$image" . >"$build/build.log" 2>&1 || {
    tail -n 40 "$build/build.log" >&2
    fail "the build failed: $build/build.log"
}

step "image"
# What the image says of itself, and its layers: uncompressed bytes, first the base's.
manifest=$(buildah inspect --type image "$image")
python3 - "$manifest" <<'PYTHON'
import json
import sys

image = json.loads(sys.argv[1])
config, history = image["Docker"]["config"], image["OCIv1"]["history"]
print("user", config["User"], "| entry point", config["Entrypoint"], "| health check", config["Healthcheck"]["Test"])
if config["User"].partition(":")[0] in ("", "0", "root"):
    sys.exit("the image's user is root")
if config["Entrypoint"] != ["vidload"]:
    sys.exit("the image's entry point isn't vidload")
if config["Healthcheck"]["Test"] != ["CMD", "vidload", "doctor"]:
    sys.exit("the image's health check isn't `vidload doctor`")
PYTHON
container=$(buildah from "$image")
root=$(buildah mount "$container")
printf '%8s MB  all\n' "$(du -s --block-size=1MB "$root" | cut -f1)"
# Sizes of the layers, as docker-format history lists them: one per step that wrote something.
buildah push --quiet --format docker --disable-compression "$image" "dir:$scratch/layers"
python3 - "$scratch/layers" <<'PYTHON'
import json
import sys
from pathlib import Path

folder = Path(sys.argv[1])
manifest = json.loads((folder / "manifest.json").read_text())
config = json.loads((folder / manifest["config"]["digest"].partition(":")[2]).read_text())
steps = [step["created_by"] for step in config["history"] if not step.get("empty_layer")]
for layer, step in zip(manifest["layers"], steps):
    step = step.replace("/bin/sh -c #(nop) ", "")
    print(f"{layer['size'] / 1e6:8.1f} MB  {step[:90]}")
PYTHON
rm -rf "$scratch/layers"

# A shared memory far smaller than a batch: nothing of vidload's may need it.
mount -t tmpfs -o "size=${shm_kib}k,mode=1777" tmpfs "$scratch/shm"
user=$(buildah inspect --format '{{.Docker.Config.User}}' "$container")
# chroot isolation shows the container this machine's /dev/shm, so a small one is put over it, for that command alone.
inside() {
    # shellcheck disable=SC2016 # the inner shell expands them
    unshare --mount --propagation private sh -c 'mount --bind "$1" /dev/shm && shift && exec "$@"' - "$scratch/shm" \
        buildah run --user "$user" --volume "$PWD/configs:/configs:ro" "$container" -- "$@"
}

step "user"
uid=$(inside id -u)
echo "uid $uid"
[ "$uid" != 0 ] || fail "commands run as root in the image"
if inside sh -c 'touch /opt/venv/x' 2>/dev/null; then fail "the user may write into /opt/venv"; fi

step "/dev/shm"
size=$(inside sh -c 'df -k /dev/shm | tail -n 1' | awk '{print $2}')
echo "$size KiB"
[ "$size" = "$shm_kib" ] || fail "/dev/shm has $size KiB in the container, not $shm_kib"

step "vidload --help"
inside vidload --help >/dev/null
step "vidload doctor"
inside vidload doctor || fail "vidload doctor found what doesn't work"

step "vidload index, vidload run"
inside python -c '
from pathlib import Path
from vidload.synthetic import write_film
Path("/work/films").mkdir(exist_ok=True)
for number in range(4):
    write_film(f"/work/films/{number}.mp4", 120, first_number=1000 * number)
'
inside vidload index /work/films -o /work/films.index
inside vidload run /configs/demo.yaml --set dataset.index=/work/films.index --epochs 2 --step-seconds 0.01 --json \
    >"$build/run.json"
python3 - "$build/run.json" <<'PYTHON'
import json
import sys

epochs = json.load(open(sys.argv[1]))["epochs"]
for epoch in epochs:
    print(epoch)
if len(epochs) != 2 or not all(epoch["batches"] for epoch in epochs):
    sys.exit("vidload run didn't load two epochs of batches")
PYTHON
used=$(df -k "$scratch/shm" | tail -n 1 | awk '{print $3}')
echo "/dev/shm: $used KiB used"
[ "$used" = 0 ] || fail "something was left in /dev/shm"

step "health check"
mapfile -t check < <(buildah inspect --type image "$image" |
    python3 -c 'import json, sys; print(*json.load(sys.stdin)["Docker"]["config"]["Healthcheck"]["Test"][1:], sep="\n")')
inside "${check[@]}" >/dev/null || fail "the health check fails: ${check[*]}"
echo "${check[*]}: ok"

step "all well"
