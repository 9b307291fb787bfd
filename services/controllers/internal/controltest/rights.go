package controltest

import (
	"context"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/garboard/garboard/libs/client"
)

// noted is a client that records the calls made through it.
type noted struct {
	client.Interface
	mu    *sync.Mutex
	calls *[]client.Call
}

// Do carries a call.
func (n noted) Do(ctx context.Context, call client.Call, into runtime.Object) error {
	n.mu.Lock()
	*n.calls = append(*n.calls, call)
	n.mu.Unlock()
	return n.Interface.Do(ctx, call, into)
}

// Allow declares what the controllers under test may do, besides following everything. The rules
// are those of their Kubernetes role, each with verbs and a resource, for example "get update
// apps/deployments" or "patch update /pods/status". The test fails if they do anything else.
func (p *Plane) Allow(rules ...string) {
	p.t.Helper()
	p.t.Cleanup(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		var refused []string
		for _, call := range p.used {
			what := call.Verb + " " + call.Kind.Group + "/" + call.Kind.Resource
			if call.Subresource != "" {
				what += "/" + call.Subresource
			}
			if !slices.ContainsFunc(rules, func(rule string) bool { return allows(rule, what) }) && !slices.Contains(refused, what) {
				refused = append(refused, what)
				p.t.Errorf("the controller may not %s", what)
			}
		}
	})
}

// allows reports whether a rule includes a verb and a resource.
func allows(rule, what string) bool {
	verb, resource, _ := strings.Cut(what, " ")
	words := strings.Fields(rule)
	verbs, of := words[:len(words)-1], words[len(words)-1]
	if !slices.Contains(verbs, verb) {
		return false
	}
	if of == resource || of == "*" {
		return true
	}
	sub, found := strings.CutPrefix(of, "*/") // any resource's subresource
	return found && strings.HasSuffix(resource, "/"+sub) && strings.Count(resource, "/") == 2
}

// Events is the rule for recording Events.
const Events = "create update patch /events"
