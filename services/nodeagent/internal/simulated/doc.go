// Package simulated is a container runtime that starts nothing, for machines without containerd and
// for tests at scale. It is a CRI v1 server on a unix socket. Its sandboxes have addresses from a
// range of the node; its containers run, write one line of log, and end only as configured.
//
// Its state is on disk. When the process is killed and restarted, its containers keep running, as
// containerd's do.
//
// A pod's annotations configure its containers. A key may end in "." and a container's name
// ("simulated.garboard.io/exit-code.web"); it then applies to that container only:
//
//	simulated.garboard.io/start-delay    2s: duration of StartContainer
//	simulated.garboard.io/exit-after     10s: how long containers run; for ever if absent
//	simulated.garboard.io/exit-code      3: exit code; without exit-after, they end at once
//	simulated.garboard.io/stop-delay     5s: how long containers take to end when stopped
//	simulated.garboard.io/log            what they write to standard output, line by line
//	simulated.garboard.io/exec-output    output of commands in them
//	simulated.garboard.io/exec-code      exit code of commands in them
//	simulated.garboard.io/http-status    503: the pod's response to HTTP probes, 200 if absent
//	simulated.garboard.io/fail-sandbox   RunPodSandbox fails with this message
//	simulated.garboard.io/fail-create    CreateContainer fails with this message
//	simulated.garboard.io/fail-start     StartContainer fails with this message
//	simulated.garboard.io/fail-pull      PullImage fails with this message
//	simulated.garboard.io/pull-delay     3s: duration of PullImage
//	simulated.garboard.io/cpu-usage      250m: cores that containers use, 1m if absent
//	simulated.garboard.io/memory-usage   64Mi: memory that containers use, 4Mi if absent
//
// A container uses what it is said to from its start to its end, always the same. As with all of these
// annotations, those of the time when the sandbox was created count. A sandbox uses the sum of its
// containers, and has no network traffic.
//
// A container that shall share the processes of another is created only if that one runs, as in
// containerd.
//
// Init containers end at once with code 0 unless configured otherwise. So do the containers of pods
// that a Job owns, except those that sleep (command sleep, or a shell's script that begins with it) or
// run pause: these stay.
//
// Probes and hooks (ExecSync) run nothing: they succeed unless the annotations say otherwise. A session
// (Exec) ends as the annotations exec-output and exec-code say, if there is one of them. Otherwise it
// runs the command, if it is one that package shell knows, with any path; another one fails as one that
// the image does not have.
//
// Attach copies what the container writes to its log from then on, and drops its input. PortForward
// connects to what Dial does. Sizes of terminals change nothing.
package simulated
