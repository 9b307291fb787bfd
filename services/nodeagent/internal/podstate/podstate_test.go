package podstate_test

import (
	"testing"

	"github.com/garboard/garboard/services/nodeagent/internal/podstate"
	"github.com/garboard/garboard/services/nodeagent/internal/runtime"
)

// TestStopped: a container that was created but never started neither runs nor is gone.
func TestStopped(t *testing.T) {
	for _, test := range []struct {
		name               string
		states             []runtime.ContainerState
		ready              bool
		running, unstarted int
		stopped            bool
	}{
		{name: "nothing", stopped: true},
		{name: "a sandbox", ready: true},
		{name: "ended", states: []runtime.ContainerState{runtime.Exited}, stopped: true},
		{name: "never started", states: []runtime.ContainerState{runtime.Created, runtime.Exited}, unstarted: 1, stopped: true},
		{name: "running", states: []runtime.ContainerState{runtime.Created, runtime.Running}, running: 1, unstarted: 1},
		{name: "unknown", states: []runtime.ContainerState{runtime.Unknown}, running: 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			pod := &podstate.Pod{Sandboxes: []runtime.Sandbox{{Ready: test.ready}}}
			for _, state := range test.states {
				pod.Containers = append(pod.Containers, runtime.Container{State: state})
			}
			if got := len(pod.Running()); got != test.running {
				t.Errorf("%d run, want %d", got, test.running)
			}
			if got := len(pod.Unstarted()); got != test.unstarted {
				t.Errorf("%d were never started, want %d", got, test.unstarted)
			}
			if got := pod.Stopped(); got != test.stopped {
				t.Errorf("stopped is %t", got)
			}
		})
	}
}
