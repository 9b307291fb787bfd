package runtime

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func TestStatusOf(t *testing.T) {
	ready := func(name string) *cri.RuntimeCondition { return &cri.RuntimeCondition{Type: name, Status: true} }
	for _, test := range []struct {
		conditions []*cri.RuntimeCondition
		want       Status
	}{
		{[]*cri.RuntimeCondition{ready("RuntimeReady"), ready("NetworkReady"), ready("Other")}, Status{RuntimeReady: true, NetworkReady: true}},
		{[]*cri.RuntimeCondition{ready("RuntimeReady"), {Type: "NetworkReady", Reason: "NetworkPluginNotReady", Message: "cni plugin not initialized"}},
			Status{RuntimeReady: true, Message: "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:cni plugin not initialized"}},
		{nil, Status{Message: "container runtime not ready: condition RuntimeReady is not set; container runtime network not ready: condition NetworkReady is not set"}},
	} {
		if diff := cmp.Diff(test.want, statusOf(test.conditions)); diff != "" {
			t.Error(diff)
		}
	}
}

func TestMayHaveRunOutOfMemory(t *testing.T) {
	killed := func(change func(*Container)) *Container {
		c := &Container{State: Exited, ExitCode: 137, Reason: "Error", FinishedAt: time.Now()}
		change(c)
		return c
	}
	for name, test := range map[string]struct {
		container *Container
		want      bool
	}{
		"killed just now": {killed(func(*Container) {}), true},
		"known as such":   {killed(func(c *Container) { c.Reason = "OOMKilled" }), false},
		"long ago":        {killed(func(c *Container) { c.FinishedAt = time.Now().Add(-time.Minute) }), false},
		"another end":     {killed(func(c *Container) { c.ExitCode = 1 }), false},
		"running":         {killed(func(c *Container) { c.State = Running }), false},
	} {
		if got := mayHaveRunOutOfMemory(test.container); got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}
