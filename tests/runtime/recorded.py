"""Output of real docker, recorded: client 28.2.2 and 20.10.24 against daemon 20.10.24."""

PULL = """\
1: Pulling from base
390967de2fda: Pulling fs layer
390967de2fda: Verifying Checksum
390967de2fda: Download complete
390967de2fda: Pull complete
Digest: sha256:b27e793cdbd9c5ecc929d4f1c5155b6fddcd7b30285e30b7209fcdb459b9ec83
Status: Downloaded newer image for 127.0.0.1:5055/base:1
127.0.0.1:5055/base:1
"""

PULL_AGAIN = """\
1: Pulling from base
Digest: sha256:b27e793cdbd9c5ecc929d4f1c5155b6fddcd7b30285e30b7209fcdb459b9ec83
Status: Image is up to date for 127.0.0.1:5055/base:1
127.0.0.1:5055/base:1
"""

IMAGE = (
    '"sha256:4b123ad82182edf5557599ea8daffa13515e0ec33f881798e0916d93e89ad772" '
    '["127.0.0.1:5055/base@sha256:'
    'b27e793cdbd9c5ecc929d4f1c5155b6fddcd7b30285e30b7209fcdb459b9ec83"]\n'
)
IMAGE_WITHOUT_REGISTRY = (
    '"sha256:4b123ad82182edf5557599ea8daffa13515e0ec33f881798e0916d93e89ad772" []\n'
)

CONTAINER = (
    '{"id":"871c44d1ab6341763e3ccc6b6f35e93fac96a8612c2853310c2b261fca8d07bd",'
    '"name":"/orc-x-r0-n1","state":{"Status":"%(status)s","Running":%(running)s,"Paused":false,'
    '"Restarting":false,"OOMKilled":%(oom)s,"Dead":false,"Pid":%(pid)d,"ExitCode":%(code)d,'
    '"Error":"","StartedAt":"2026-11-30T18:04:26.403481377Z",'
    '"FinishedAt":"%(finished)s"},"image":"127.0.0.1:5055/base:1",'
    '"image_id":"sha256:4b123ad82182edf5557599ea8daffa13515e0ec33f881798e0916d93e89ad772",'
    '"path":"vllm","args":["serve","m"],'
    '"labels":{"orc.deployment":"x","orc.endpoint":"http://10.1.0.11:8000","orc.model":"m",'
    '"orc.nodes":"2","orc.rank":"1","orc.replica":"0","orc.role":"worker","orc.spec":"abc"},'
    '"restarts":0}'
)
RUNNING = CONTAINER % {
    **{"status": "running", "running": "true", "oom": "false", "pid": 4711, "code": 0},
    "finished": "0001-01-01T00:00:00Z",
}
KILLED = CONTAINER % {
    **{"status": "exited", "running": "false", "oom": "true", "pid": 0, "code": 137},
    "finished": "2026-11-30T18:04:29.410230002Z",
}
UNLABELLED = (
    '{"id":"aa","name":"/orc-x-r0-n0","state":{"Status":"running","Pid":1,"ExitCode":0,'
    '"OOMKilled":false,"Error":"","StartedAt":"2026-11-30T18:04:26Z",'
    '"FinishedAt":"0001-01-01T00:00:00Z"},"image":"i","image_id":"sha256:1","path":"sh",'
    '"args":null,"labels":null,"restarts":0}'
)
NO_SUCH_CONTAINER = "Error response from daemon: No such container: aa\n"
NO_DAEMON = "Cannot connect to the Docker daemon at unix:///nope. Is the docker daemon running?\n"
