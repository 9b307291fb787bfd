// Package podstate describes what the runtime holds of one pod: its sandboxes and containers,
// newest first.
package podstate

import (
	"cmp"
	"slices"
	"time"

	"github.com/garboard/garboard/services/nodeagent/internal/runtime"
)

// Pod is the runtime's state of one pod. It is shared: do not modify it.
type Pod struct {
	UID, Name, Namespace string
	// Sandboxes and Containers are newest first.
	Sandboxes  []runtime.Sandbox
	Containers []runtime.Container
	// Err is why the runtime could not read one of them. What is known of the pod is not to be acted on then.
	Err error
}

// Group groups the runtime's sandboxes and containers into pods by UID.
func Group(sandboxes []runtime.Sandbox, containers []runtime.Container) map[string]*Pod {
	pods := map[string]*Pod{}
	of := func(uid, name, namespace string) *Pod {
		p := pods[uid]
		if p == nil {
			p = &Pod{UID: uid, Name: name, Namespace: namespace}
			pods[uid] = p
		}
		return p
	}
	for _, s := range sandboxes {
		p := of(s.PodUID, s.PodName, s.Namespace)
		p.Sandboxes = append(p.Sandboxes, s)
		p.Err = cmp.Or(p.Err, s.Err)
	}
	for _, c := range containers {
		p := of(c.PodUID, c.PodName, c.Namespace)
		p.Containers = append(p.Containers, c)
		p.Err = cmp.Or(p.Err, c.Err)
	}
	for _, p := range pods {
		slices.SortFunc(p.Sandboxes, func(a, b runtime.Sandbox) int {
			return cmp.Or(cmp.Compare(b.Attempt, a.Attempt), b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(a.ID, b.ID))
		})
		slices.SortFunc(p.Containers, func(a, b runtime.Container) int {
			return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(b.Attempt, a.Attempt), cmp.Compare(a.ID, b.ID))
		})
	}
	return pods
}

// Container returns the newest container with this name; nil if there is none.
func (p *Pod) Container(name string) *runtime.Container {
	for i := range p.Containers {
		if p.Containers[i].Name == name {
			return &p.Containers[i]
		}
	}
	return nil
}

// Before returns the newest container with c's name that is older than c; nil if there is none.
func (p *Pod) Before(c *runtime.Container) *runtime.Container {
	seen := false
	for i := range p.Containers {
		switch other := &p.Containers[i]; {
		case other.ID == c.ID:
			seen = true
		case seen && other.Name == c.Name:
			return other
		}
	}
	return nil
}

// Sandbox returns the newest sandbox; nil if there is none.
func (p *Pod) Sandbox() *runtime.Sandbox {
	if len(p.Sandboxes) == 0 {
		return nil
	}
	return &p.Sandboxes[0]
}

// ReadySandbox returns the newest sandbox if it is ready, else nil.
func (p *Pod) ReadySandbox() *runtime.Sandbox {
	if s := p.Sandbox(); s != nil && s.Ready {
		return s
	}
	return nil
}

// IPs returns the pod's addresses: those of its ready sandbox.
func (p *Pod) IPs() []string {
	if s := p.ReadySandbox(); s != nil {
		return s.IPs
	}
	return nil
}

// Running returns the containers that run, or whose state the runtime does not know.
func (p *Pod) Running() []*runtime.Container {
	return p.in(runtime.Running, runtime.Unknown)
}

// Unstarted returns the containers that were created but not started. They neither run nor end:
// stopping one changes nothing, only removing it does.
func (p *Pod) Unstarted() []*runtime.Container {
	return p.in(runtime.Created)
}

func (p *Pod) in(states ...runtime.ContainerState) []*runtime.Container {
	var found []*runtime.Container
	for i := range p.Containers {
		if slices.Contains(states, p.Containers[i].State) {
			found = append(found, &p.Containers[i])
		}
	}
	return found
}

// Stopped reports whether nothing of the pod runs: no container, no sandbox. Containers that were
// never started may remain.
func (p *Pod) Stopped() bool {
	return len(p.Running()) == 0 && !slices.ContainsFunc(p.Sandboxes, func(s runtime.Sandbox) bool { return s.Ready })
}

// NewestAt returns the creation time of the pod's newest sandbox; zero if there is none.
func (p *Pod) NewestAt() time.Time {
	if s := p.Sandbox(); s != nil {
		return s.CreatedAt
	}
	return time.Time{}
}
