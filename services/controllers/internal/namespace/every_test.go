package namespace

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/controllers/internal/controltest"
)

// TestEveryKindGoesWithItsNamespace checks that deleting a namespace deletes everything in it, of
// whatever kind, and nothing else.
func TestEveryKindGoesWithItsNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t)
		table := p.Table()
		do := func(verb string, kind *scheme.Kind, namespace string, into scheme.Object) error {
			call := client.Call{Verb: verb, Kind: kind, Namespace: namespace, Name: "every"}
			switch verb {
			case "create":
				obj := kind.New()
				obj.SetName("every")
				obj.SetNamespace(namespace)
				call.Options, call.Body = &metav1.CreateOptions{}, obj
			default:
				call.Options = &metav1.GetOptions{}
			}
			return p.Do(t.Context(), call, into)
		}
		for _, kind := range table.Kinds() {
			if !kind.Namespaced || !kind.Stored() {
				continue
			}
			for _, namespace := range []string{"x", "y"} {
				if err := do("create", kind, namespace, kind.New()); err != nil {
					t.Fatalf("creating %s: %v", kind.Resource, err)
				}
			}
		}
		remove(t, p, "x")
		for range 10 {
			time.Sleep(20 * time.Second)
			synctest.Wait()
			for _, pod := range controltest.List[*corev1.Pod](p) {
				if pod.DeletionTimestamp != nil {
					p.Remove(pod)
				}
			}
		}
		for _, kind := range table.Kinds() {
			if !kind.Namespaced || !kind.Stored() {
				continue
			}
			if do("get", kind, "x", kind.New()) == nil {
				t.Errorf("%s are left in the deleted namespace", kind.Resource)
			}
			if err := do("get", kind, "y", kind.New()); err != nil {
				t.Errorf("%s of another namespace are gone: %v", kind.Resource, err)
			}
		}
	})
}
