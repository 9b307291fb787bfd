package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"k8s.io/client-go/kubernetes"

	"github.com/garboard/garboard/test/e2e/plane"
)

const gadgets = `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: gadgets.example.com},
	spec: {group: example.com, scope: Namespaced, names: {plural: gadgets, singular: gadget, kind: Gadget, listKind: GadgetList},
	versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]}}`

// customResourcesAreKept checks what the controllers do for custom resources: a kind is defined while they run,
// its objects own and are owned, count for a quota, and go with their namespace.
func customResourcesAreKept(t *testing.T, p *plane.Plane, _ kubernetes.Interface) {
	expect(t, p, "", `created`, "create", "namespace", "custom")
	expect(t, p, "", `created`, "create", "quota", "two", "-n", "custom", "--hard=count/gadgets.example.com=2")
	expect(t, p, gadgets, `created`, "create", "-f", "-")
	expect(t, p, "", `condition met`, "wait", "--for=condition=Established", "crd/gadgets.example.com")
	used := func(want string) {
		t.Helper()
		plane.Eventually(t, want+" Gadgets to be used", func(context.Context) error {
			out := p.Must(t, "", "get", "quota", "two", "-n", "custom", "-o", `jsonpath={.status.used.count/gadgets\.example\.com}`)
			if out != want {
				return errors.New(out)
			}
			return nil
		})
	}
	used("0")
	expect(t, p, "", `created`, "create", "configmap", "top", "-n", "custom")
	uid := func(what string) string {
		return p.Must(t, "", "get", what, "-n", "custom", "-o", "jsonpath={.metadata.uid}")
	}
	gadget := func(name, more string) string {
		return fmt.Sprintf(`{apiVersion: example.com/v1, kind: Gadget, metadata: {name: %s, namespace: custom%s}}`, name, more)
	}
	owner := func(version, kind, name string) string {
		return fmt.Sprintf(`, ownerReferences: [{apiVersion: %s, kind: %s, name: %s, uid: %s, blockOwnerDeletion: true}]`,
			version, kind, name, uid(strings.ToLower(kind)+"/"+name))
	}
	expect(t, p, gadget("owned", owner("v1", "ConfigMap", "top")), `created`, "create", "-f", "-")
	expect(t, p, gadget("held", `, finalizers: [example.com/hold]`), `created`, "create", "-f", "-")
	expect(t, p, `{apiVersion: v1, kind: ConfigMap, metadata: {name: leaf, namespace: custom`+owner("example.com/v1", "Gadget", "owned")+`}}`,
		`created`, "create", "-f", "-")
	used("2")
	if res := p.Kubectl(t, gadget("third", ""), "create", "-f", "-"); res.Code == 0 || !strings.Contains(res.Stderr, "exceeded quota: two") {
		t.Errorf("got exit code %d and %q, want the quota to be exceeded", res.Code, res.Stderr)
	}

	expect(t, p, "", `deleted`, "delete", "configmap", "top", "-n", "custom")
	plane.Eventually(t, "the Gadget and what it owns to go", func(context.Context) error {
		out := p.Must(t, "", "get", "gadgets,configmaps", "-n", "custom", "-o", "name")
		if strings.Contains(out, "owned") || strings.Contains(out, "leaf") || !strings.Contains(out, "held") {
			return errors.New(out)
		}
		return nil
	})
	used("1")

	expect(t, p, "", `deleted`, "delete", "namespace", "custom", "--wait=false")
	plane.Eventually(t, "the held Gadget to be reported", func(context.Context) error {
		out := p.Must(t, "", "get", "namespace", "custom", "-o", "jsonpath={.status.conditions[*].message}")
		if !strings.Contains(out, "gadgets.example.com has 1 resource instances") || !strings.Contains(out, "example.com/hold in 1 resource instances") {
			return errors.New(out)
		}
		return nil
	})
	expect(t, p, "", `patched`, "patch", "gadget", "held", "-n", "custom", "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
	expect(t, p, "", ``, "wait", "--for=delete", "namespace/custom", "--timeout=2m")
	expect(t, p, "", `deleted`, "delete", "crd", "gadgets.example.com")
}
