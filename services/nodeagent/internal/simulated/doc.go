// Package simulated is a container runtime that starts nothing: a CRI v1 server on a unix socket
// whose sandboxes have addresses from a range of the node and whose containers run, write a line
// of log and end only as they are told, for machines without containerd and for tests of scale.
//
// What it holds rests on disk, so that containers go on running, as containerd's do, when the
// process is killed and started again.
//
// A pod's annotations say how its containers behave. A key may end in "." and a container's name
// ("simulated.garboard.io/exit-code.web") and is then for that one only:
//
//	simulated.garboard.io/start-delay    2s: how long StartContainer takes
//	simulated.garboard.io/exit-after     10s: how long containers run; for ever when missing
//	simulated.garboard.io/exit-code      3: with which code they end; alone, they end at once
//	simulated.garboard.io/stop-delay     5s: how long they take to end when asked to
//	simulated.garboard.io/log            what they write on standard output, line by line
//	simulated.garboard.io/exec-output    what commands in them answer
//	simulated.garboard.io/exec-code      the exit code of commands in them
//	simulated.garboard.io/http-status    503: what the pod answers to HTTP probes, 200 when missing
//	simulated.garboard.io/fail-sandbox   RunPodSandbox fails with these words
//	simulated.garboard.io/fail-create    CreateContainer fails with these words
//	simulated.garboard.io/fail-start     StartContainer fails with these words
//	simulated.garboard.io/fail-pull      PullImage fails with these words
//	simulated.garboard.io/pull-delay     3s: how long PullImage takes
//
// Init containers end with code 0 at once unless they are told otherwise.
package simulated
