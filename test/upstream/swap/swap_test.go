// Package swap lets Kubernetes' apiserver and ours take turns on one etcd.
package swap

import (
	"log/slog"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/server/pki"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store/etcdtest"
	"github.com/garboard/garboard/services/apiserver/internal/test/harness"
)

// TestSwap lets one apiserver write objects of every kind, and the other take over, in both directions.
func TestSwap(t *testing.T) {
	program := build(t)
	forms := map[string]map[string]string{}
	for _, direction := range []string{"from garboard", "from kube-apiserver"} {
		t.Run(direction, func(t *testing.T) {
			etcd := etcdtest.Start(t)
			local := ours{harness.New(t, etcd.Endpoints())}
			if _, err := pki.Open(local.CertDir, []string{"127.0.0.1"}, slog.Default()); err != nil {
				t.Fatal(err)
			}
			var first, second server = local, &theirs{t: t, ours: local.Server, program: program}
			if direction == "from kube-apiserver" {
				first, second = second, first
			}
			c := &cluster{T: t, etcd: etcd, table: scheme.New()}
			forms[direction] = c.takeTurns(first, second)
		})
	}
	if diff := cmp.Diff(forms["from garboard"], forms["from kube-apiserver"]); diff != "" {
		t.Errorf("what is stored, and how, differs (-garboard +kube-apiserver):\n%s", diff)
	}
}

// takeTurns returns how etcd holds what the first apiserver wrote.
func (c *cluster) takeTurns(first, second server) map[string]string {
	c.addRelics()
	c.swapTo(first)
	c.settle(c.find("customresourcedefinitions", "relics.swap.example.com"))
	c.addNamespace(namespace)
	c.addSamples()
	c.addDefinitions(converter(c.T))
	c.addResources()
	c.serve()
	c.settleStatuses()
	// Kubernetes stores a few fields, such as the phase of a claim, only when an object is written again.
	c.rewrite()
	forms, before, token := c.forms(), c.read(), c.token()

	c.takeOver(second, before, token)
	c.change("second")
	c.serve()
	c.applyAgain()
	c.scale()
	c.storeNewer()
	c.deleteHeld()
	c.removeDefinition(schema.GroupResource{Group: "swap.k8s.io", Resource: "cranks"})
	before, token = c.read(), c.token()

	c.takeOver(first, before, token)
	c.change("first")
	c.serve()
	c.scale()
	c.release()
	c.removeDefinition(schema.GroupResource{Group: "swap.example.com", Resource: "wheels"})
	return forms
}

// takeOver starts another apiserver, and checks that it finds everything as it was.
func (c *cluster) takeOver(next server, before states, token string) {
	c.running.stop()
	stored := c.etcd.Values(c.T, "/registry/")
	c.swapTo(next)
	c.wantUntouched(stored)
	c.wantSame(before)
	c.wantListed(before)
	c.wantAllocated()
	c.wantAuthenticated(token)
	c.wantSameEncoding()
}
