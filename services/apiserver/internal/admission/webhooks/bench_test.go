package webhooks_test

import (
	"testing"

	registrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/admission/admissiontest"
)

// BenchmarkUninvolved admits pods that no webhook is asked about.
func BenchmarkUninvolved(b *testing.B) {
	for name, hooks := range map[string]func(w *world) []hook{
		"no configuration": func(*world) []hook { return nil },
		"other rules": func(w *world) []hook {
			return []hook{w.everything("x", rule("*", "", "v1", "services", registrationv1.AllScopes))}
		},
		"a match condition": func(w *world) []hook { return []hook{w.everything("x", conditions("object.metadata.name == 'other'"))} },
	} {
		b.Run(name, func(b *testing.B) {
			w := newWorld(b, false)
			if made := hooks(w); len(made) > 0 {
				w.configure("c", made...)
			}
			chain, pods := admission.NewChain(w.plugin), w.Table.KindOf(admissiontest.Pod())
			b.ReportAllocs()
			for b.Loop() {
				req := &admission.Request{Verb: admission.Create, Kind: pods, Namespace: "ns", Name: "p", Object: admissiontest.Pod()}
				if err := chain.Validate(b.Context(), req); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
