package validatingpolicystatus

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/services/controllers/internal/controller"
	"github.com/garboard/garboard/services/controllers/internal/controltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// applying is an API that also applies the status of policies, which the one in memory cannot.
type applying struct {
	client.Interface
	plane *controltest.Plane

	mu      sync.Mutex
	applied []string
	refuse  []error // of the next applies
}

func (a *applying) Do(ctx context.Context, call client.Call, into runtime.Object) error {
	if call.PatchType != types.ApplyYAMLPatchType {
		return a.Interface.Do(ctx, call, into)
	}
	opts := call.Options.(*metav1.PatchOptions)
	if call.Kind.Kind != "ValidatingAdmissionPolicy" || call.Subresource != "status" || opts.FieldManager != "validatingadmissionpolicy-status" || !*opts.Force {
		return fmt.Errorf("got the apply %+v with %+v", call, opts)
	}
	a.mu.Lock()
	a.applied = append(a.applied, string(call.Patch))
	var refusal error
	if len(a.refuse) > 0 {
		refusal, a.refuse = a.refuse[0], a.refuse[1:]
	}
	a.mu.Unlock()
	if refusal != nil {
		return refusal
	}
	var sent registrationv1.ValidatingAdmissionPolicy
	if err := json.Unmarshal(call.Patch, &sent); err != nil {
		return err
	}
	policies := client.Of[policy](a.plane.Client)
	current, err := policies.Get(ctx, "", call.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	current.Status = sent.Status
	_, err = policies.UpdateStatus(ctx, current, metav1.UpdateOptions{})
	return err
}

// TestStatus follows the status of a policy through its generations.
func TestStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := controltest.New(t)
		api := &applying{Interface: p.Config.Client, plane: p}
		p.Config.Client = api
		p.Allow("get patch update admissionregistration.k8s.io/validatingadmissionpolicies/status")
		busy := true
		p.OnDocument(func(path string) ([]byte, error) {
			if busy {
				busy = false
				return nil, apierrors.NewTooManyRequests("busy", 1)
			}
			return documentAt(strings.TrimPrefix(path, "/openapi/v3/"))
		})
		p.Declare(func(d controller.Deps) *controller.Spec { return New(d, known(func() error { return nil })) })
		p.Start()
		rules := []registrationv1.NamedRuleWithOperations{{RuleWithOperations: registrationv1.RuleWithOperations{
			Operations: []registrationv1.OperationType{"CREATE"},
			Rule:       registrationv1.Rule{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments"}},
		}}}
		controltest.Create(p, &registrationv1.ValidatingAdmissionPolicy{
			ObjectMeta: metav1.ObjectMeta{Name: "p"},
			Spec: registrationv1.ValidatingAdmissionPolicySpec{
				MatchConstraints: &registrationv1.MatchResources{ResourceRules: rules},
				Validations:      []registrationv1.Validation{{Expression: "object.nothing == 1"}},
			},
		})
		time.Sleep(time.Minute)
		const start = `{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicy","metadata":{"name":"p"},"status":{"observedGeneration":`
		want := []string{start + `1,"typeChecking":{"expressionWarnings":[{"fieldRef":"spec.validations[0].expression","warning":"apps/v1, Kind=Deployment: ERROR: \u003cinput\u003e:1:7: undefined field 'nothing'\n | object.nothing == 1\n | ......^\n"}]}}}`}
		check := func() {
			t.Helper()
			api.mu.Lock()
			defer api.mu.Unlock()
			if diff := cmp.Diff(want, api.applied); diff != "" {
				t.Errorf("the applied statuses (-want +got):\n%s", diff)
			}
		}
		check()

		controltest.Change(p, "", "p", func(p policy) { p.Labels = map[string]string{"a": "b"} })
		time.Sleep(time.Minute)
		check() // The generation is the same.

		api.mu.Lock()
		api.refuse = []error{apierrors.NewTooManyRequests("busy", 1)}
		api.mu.Unlock()
		controltest.Change(p, "", "p", func(p policy) {
			p.Spec.Validations[0].Expression = "has(object.spec)"
		})
		time.Sleep(time.Minute)
		want = append(want, start+`2,"typeChecking":{}}}`, start+`2,"typeChecking":{}}}`)
		check()
		if got := controltest.Get[policy](p, "", "p").Status; got.ObservedGeneration != 2 || got.TypeChecking == nil || got.TypeChecking.ExpressionWarnings != nil {
			t.Errorf("got %+v", got)
		}
	})
}
