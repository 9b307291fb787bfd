package policies_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
)

// BenchmarkPolicies measures what policies add to the creation of a pod. The goal of a no-op policy that
// validates is at most 20 µs.
func BenchmarkPolicies(b *testing.B) {
	const configMaps = `matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]}`
	for _, bc := range []struct{ name, documents string }{
		{"none", ""},
		{"unmatched", validatingOf("p", configMaps, `validations: [{expression: "true"}]`) + bindingOf("b", "p", "validationActions: [Deny]")},
		{"noop", policy(`validations: [{expression: "true"}]`, "")},
		{"condition", policy(`matchConditions: [{name: a, expression: "request.userInfo.username != 'alice'"}]`+"\n"+`validations: [{expression: "true"}]`, "")},
		{"containers", policy(`validations: [{expression: "object.spec.containers.all(c, c.image.startsWith('registry.example.com/'))"}]`, "")},
		{"jsonpatch", mutatingOf("p", patching(`[JSONPatch{op: 'add', path: '/metadata/labels', value: {'a': 'x'}}]`), "")},
		{"apply", mutatingOf("p", applying(`Object{metadata: Object.metadata{labels: {'a': 'x'}}}`), "")},
	} {
		b.Run(bc.name, func(b *testing.B) {
			w := newWorld(b, bc.documents)
			ctx := authn.WithUser(b.Context(), authn.User{Name: "alice", Groups: []string{"devs", "system:authenticated"}})
			p := pod("a", "x")
			w.definitions().Complete(p)
			p.Spec.Containers[0].Image = "registry.example.com/a"
			p.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
			kind := w.Table.KindOf(p)
			b.ReportAllocs()
			for b.Loop() {
				req := &admission.Request{Verb: admission.Create, Kind: kind, Namespace: "ns", Name: "p", Object: p}
				if err := w.chain.Mutate(ctx, req); err != nil {
					b.Fatal(err)
				}
				if err := w.chain.Validate(ctx, req); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkCompile measures what a policy costs when a request first matches it, and what is kept of it.
func BenchmarkCompile(b *testing.B) {
	w := newWorld(b, policy(`validations: [{expression: "object.spec.containers.all(c, c.image.startsWith('registry.example.com/'))"}]`, ""))
	kind := w.Table.KindOf(pod())
	obj := w.decode(validatingOf("p", `matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}`,
		`validations: [{expression: "object.spec.containers.all(c, c.name != 'x')"}]`)[len("\n---\n"):])
	b.ReportAllocs()
	for b.Loop() {
		w.put(obj)
		p := pod()
		p.SetGroupVersionKind(kind.GroupVersionKind)
		req := &admission.Request{Verb: admission.Create, Kind: kind, Namespace: "ns", Name: "p", Object: p}
		if err := w.chain.Validate(b.Context(), req); err != nil {
			b.Fatal(err)
		}
	}
}
