"""Output of the probe, as hosts printed it: a CPU host for real, GPU sections after the tools'
documented formats."""

CPU_HOST = """\
@hostname
node01
@addresses
1: lo    inet 127.0.0.1/8 scope host lo\\       valid_lft forever preferred_lft forever
1: lo    inet6 ::1/128 scope host \\       valid_lft forever preferred_lft forever
4: eth0@if5    inet 192.0.2.2/24 brd 192.0.2.255 scope global eth0\\       valid_lft forever
6: bond0.12    inet 10.90.0.1/24 scope global bond0.12\\       valid_lft forever
@nvidia
@nvidia-processes
@rocm

@docker
20.10.24+dfsg1
status 0
@disk
Filesystem     1048576-blocks  Used Available Capacity Mounted on
/dev/vda               258020 26772     77126      26% /
@cpus
2
@memory
MemTotal:       24684076 kB
MemFree:         3410 kB
@listening
LISTEN 0      128      0.0.0.0:2024 0.0.0.0:*                                          
LISTEN 0      4096   10.90.0.1:5000 0.0.0.0:* users:(("docker-registry",pid=9444,fd=3))
LISTEN 0      2048           *:8000       *:* users:(("vllm",pid=77,fd=3),("vllm",pid=78,fd=3))
LISTEN 0      4096       [::1]:6379    [::]:* users:(("redis",pid=80,fd=3))
@containers
9444 
77 871c44d1ab6341763e3ccc6b6f35e93fac96a8612c2853310c2b261fca8d07bd
@end
"""  # noqa: W291 - as it was printed

NVIDIA = """\
@nvidia
0, GPU-aa, NVIDIA H200, 143771, 4, 570.86.15
1, GPU-bb, NVIDIA H200, 143771, 71004, 570.86.15
@nvidia-processes
GPU-bb, 4242, /opt/venv/bin/python3, 71000, mia, 871c44d1ab6341763e3ccc6b6f35e93fac96a8612c
GPU-cc, 4243, other, 10, root, 
"""  # noqa: W291

UNIFIED_MEMORY = "@nvidia\n0, GPU-aa, NVIDIA GB10, [N/A], [N/A], 580.95.05\n"

ROCM = """\
@rocm
{"card0": {"Card Series": "AMD Instinct MI300X", "VRAM Total Memory (B)": "206141652992",
 "VRAM Total Used Memory (B)": "297840640"}, "card1": {"Card series": "AMD Instinct MI300X",
 "VRAM Total Memory (B)": "206141652992", "VRAM Total Used Memory (B)": "0"},
 "system": {"Driver version": "6.10.5"}}
"""

PROC_NET_TCP = """\
@listening
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000:1F40 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1
   1: 0100007F:0016 0100007F:D431 01 00000000:00000000 00:00000000 00000000     0        0 2 1
"""

NO_PERMISSION = """\
@docker
permission denied while trying to connect to the Docker daemon socket at unix:///var/run/docker.sock
status 1
"""
