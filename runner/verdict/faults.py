"""Faults of a host told by the words of a daemon, a registry or a driver, and whether a retry makes sense.

One ordered table; the first row that matches wins. The same rows serve error texts of the container engine
(:func:`classify_message`) and, where ``in_log`` is set, lines of a cell's log (:mod:`runner.verdict.causes`), and say
what is done after a fault: whether the cell is tried again, and whether its devices or the host are used no more.
"""

from __future__ import annotations

from runner.model import Culprit, Fault
from runner.verdict.host_fault import FaultRow, HostFault, Retry
from runner.verdict.host_fault import row as _row

_DEVICE, _PULL, _NET = Fault.DEVICE, Fault.PULL, Fault.NETWORK

FAULT_ROWS: tuple[FaultRow, ...] = (
    # ---- devices at container start
    _row(
        r"cannot set both Count and DeviceIDs",
        name="runner_bug",
        culprit=Culprit.TEST,
        fault=None,
        retry=Retry.NO,
        hint="a device request was built wrongly; this is a bug of the runner, please report it",
        source="moby daemon/nvidia_linux.go",
    ),
    _row(
        r"could not select device driver \"?cdi",
        name="cdi",
        fault=_DEVICE,
        retry=Retry.OTHER_HOST,
        closes_host=True,
        hint="CDI is not enabled in this engine: set features.cdi in its daemon.json, or use the container toolkit",
        source="NVIDIA/nvidia-docker#1352",
    ),
    _row(
        r"CDI device injection failed|unresolvable CDI devices",
        name="cdi_device",
        fault=_DEVICE,
        retry=Retry.OTHER_HOST,
        hint="the CDI specification is stale: run `nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml`",
        source="NVIDIA/nvidia-container-toolkit#203",
    ),
    _row(
        r"could not select device driver",
        name="no_gpu_runtime",
        fault=_DEVICE,
        retry=Retry.OTHER_HOST,
        closes_host=True,
        hint="install the vendor's container toolkit and restart the engine",
        source="moby/moby#47633",
    ),
    _row(
        r"nvidia-container-cli: device error: .{0,200}unknown device",
        name="unknown_device",
        fault=_DEVICE,
        retry=Retry.OTHER_HOST,
        hint="the device id is not one of this host: look at the ids that doctor lists",
        source="NVIDIA/nvidia-docker#1026",
    ),
    _row(
        r"nvidia-container-cli: (?:initialization error|.{0,80}(?:nvml error|driver))|driver not loaded",
        name="no_driver",
        fault=_DEVICE,
        retry=Retry.OTHER_HOST,
        closes_host=True,
        hint="the GPU driver of this host is not loaded",
        source="NVIDIA/nvidia-docker#1642",
    ),
    _row(
        r"error gathering device information while adding custom device \"/dev/nvidia",
        name="device_gone",
        fault=_DEVICE,
        retry=Retry.OTHER_HOST,
        hint="the NVIDIA device node is gone: see `nvidia-smi` and `dmesg`",
        source="moby oci/devices_linux.go",
    ),
    _row(
        r"error gathering device information while adding custom device",
        name="no_device_node",
        fault=_DEVICE,
        retry=Retry.OTHER_HOST,
        closes_host=True,
        hint="a device file is missing: the driver of this platform is not loaded on this host",
        source="moby oci/devices_linux.go",
    ),
    # ---- devices inside a running container
    _row(
        r"Failed to initialize NVML: Unknown Error",
        name="device_lost",
        fault=_DEVICE,
        retry=Retry.SAME_HOST,
        in_log=True,
        hint="the container lost its devices (daemon reload); a new container gets them back",
        source="NVIDIA/nvidia-container-toolkit#48",
    ),
    _row(
        r"Unable to open /dev/kfd|/dev/kfd.{0,40}Permission denied|/dev/dri/\S{1,40}.{0,40}Permission denied"
        r"|Permission denied: '/dev/(?:kfd|dri|nvidia)",
        name="device_permission",
        fault=_DEVICE,
        retry=Retry.OTHER_HOST,
        closes_host=True,
        in_log=True,
        hint="add the numeric ids of the host's groups render and video",
        source="ROCm: Running ROCm Docker containers",
    ),
    _row(
        r"No HIP GPUs are available|No CUDA GPUs are available|no CUDA-capable device is detected",
        name="no_visible_device",
        fault=_DEVICE,
        retry=Retry.OTHER_HOST,
        in_log=True,
        hint="no device is visible in the cell: visible-device variables filter twice",
        source="torch c10/cuda/CUDAFunctions.cpp, torch/cuda/__init__.py 2.13",
    ),
    _row(
        r"Failed to infer device type",
        name="no_platform",
        fault=_DEVICE,
        retry=Retry.SAME_HOST,  # the image may be at fault as well as the device: not set aside at the first sight
        in_log=True,
        hint="the engine found no platform it can run on: is a device visible in the cell?",
        source="vllm/config/device.py 0.32",
    ),
    _row(
        r"uncorrectable (?:NVLink|ECC) error|has fallen off the bus|CUDA-capable device\(s\) is/are busy"
        r"|devices are busy or unavailable|system not yet initialized|HW Exception by GPU node"
        r"|CUDA driver version is insufficient|NVIDIA driver on your system is too old|Found no NVIDIA driver on your system"
        r"|unsupported display driver|Unexpected error from cudaGetDeviceCount"
        r"|(?:ImportError|OSError): libcuda\.so\.1: cannot open|unspecified launch failure due to ECC",
        name="sick_device",
        fault=_DEVICE,
        retry=Retry.OTHER_HOST,
        in_log=True,
        hint="the device or its driver is ill: look at the vendor's health tool before it gets another cell",
        source="CUDA Runtime API error table (3, 35, 46, 214, 802, 803); ROCR-Runtime; torch/cuda/__init__.py and"
        " c10/cuda/CUDAFunctions.cpp 2.13; libcuda.so.1 comes from the host's driver",
    ),
    # ---- pulling images
    _row(
        r"toomanyrequests|pull rate limit|429 Too Many Requests",
        name="pull_rate",
        fault=_PULL,
        retry=Retry.LATER,
        hint="the registry limits pulls: log in, or use a mirror",
        source="docker/hub-feedback#2040",
    ),
    _row(
        r"unauthorized: |authentication required|no basic auth credentials|pull access denied"
        r"|requested access to the resource is denied",
        name="pull_denied",
        culprit=Culprit.CONFIG,
        fault=None,
        retry=Retry.NO,
        hint="the registry refuses this image: is its name right, and is this host logged in?",
        source="distribution error codes UNAUTHORIZED, DENIED",
    ),
    _row(
        r"manifest unknown|manifest for \S{1,300} not found|No such image",
        name="no_such_image",
        culprit=Culprit.CONFIG,
        fault=None,
        retry=Retry.NO,
        hint="there is no image of this name and tag",
        source="distribution error code MANIFEST_UNKNOWN",
    ),
    _row(
        r"no matching manifest for|does not match the (?:specified|detected) (?:host )?platform",
        name="other_architecture",
        culprit=Culprit.CONFIG,
        fault=None,
        retry=Retry.NO,
        hint="the image was not built for this host's architecture",
        source="moby distribution/pull_v2.go",
    ),
    _row(
        r"invalid reference format|repository name must be lowercase",
        name="bad_reference",
        culprit=Culprit.CONFIG,
        fault=None,
        retry=Retry.NO,
        hint="this is no image reference: correct it in the matrix file",
        source="distribution/reference",
    ),
    # ---- disk
    _row(
        r"no space left on device|disk quota exceeded",
        name="disk_full",
        fault=Fault.DISK,
        retry=Retry.OTHER_HOST,
        closes_host=True,
        in_log=True,
        hint="free disk space on this host",
        source="errno ENOSPC, EDQUOT",
    ),
    # ---- network
    _row(
        r"received unexpected HTTP status: 5\d\d|5\d\d (?:Service Unavailable|Bad Gateway|Gateway Time-?out)",
        name="registry_down",
        fault=_PULL,
        retry=Retry.LATER,
        hint="the registry does not answer properly",
        source="docker/hub-feedback#2429",
    ),
    _row(
        r"TLS handshake timeout|Temporary failure in name resolution|Could not resolve host|no such host"
        r"|Name or service not known|Network is unreachable|No route to host|i/o timeout"
        r"|Client\.Timeout exceeded",
        name="network",
        fault=_NET,
        retry=Retry.LATER,
        in_log=True,
        hint="this host cannot reach the network it needs",
        source="Go net/http, glibc getaddrinfo, errno ENETUNREACH and EHOSTUNREACH",
    ),
    # ---- the daemon
    _row(
        r"Cannot connect to the Docker daemon|docker\.sock|Connection aborted|Connection refused"
        r"|Read timed out|context deadline exceeded|Server disconnected|Remote end closed connection",
        name="daemon",
        fault=Fault.DAEMON,
        retry=Retry.SAME_HOST,
        hint="the container engine of this host does not answer",
        source="docker/docker-py#2266, #1966",
    ),
    _row(
        r"The container name \S{1,200} is already in use|removal of container \S{1,200} is already in progress"
        r"|No such container|device or resource busy",
        name="container_state",
        fault=Fault.DAEMON,
        retry=Retry.SAME_HOST,
        hint="the container engine still holds an earlier container",
        source="moby/moby#23371, docker/for-linux#1421",
    ),
    _row(
        r"exec: \S{1,200}: (?:executable file not found|no such file or directory|permission denied)"
        r"|OCI runtime create failed.{0,400}exec",
        name="no_such_program",
        culprit=Culprit.IMAGE,
        fault=None,
        retry=Retry.NO,
        hint="the image does not hold the program that the cell starts",
        source="runc libcontainer; docker run exit codes 126, 127",
    ),
)


def classify_message(text: str) -> HostFault | None:
    """What an error text of a container engine, registry or driver means; None where no row knows it."""
    head = text[:4000]
    return next((row.meaning for row in FAULT_ROWS if row.pattern.search(head)), None)
