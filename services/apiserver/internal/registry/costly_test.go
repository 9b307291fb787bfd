package registry_test

import (
	"context"
	"slices"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
	"github.com/garboard/garboard/services/apiserver/internal/registry"
)

// TestCostlyValidationsWait has creations and updates of policies, whose expressions are compiled, wait while others of
// their kind are validated, and those of other kinds not.
func TestCostlyValidationsWait(t *testing.T) {
	w := newWorld(t)
	policies, maps := resource[*admissionregistrationv1.ValidatingAdmissionPolicy](w), resource[*corev1.ConfigMap](w)
	create := func(ctx context.Context, name string) error {
		_, err := policies.Create(ctx, "", policy(name, "true", 1), metav1.CreateOptions{})
		return err
	}
	update := func(ctx context.Context) error {
		_, err := policies.Update(ctx, "", "first", func(current scheme.Object) (scheme.Object, error) {
			next := current.DeepCopyObject().(*admissionregistrationv1.ValidatingAdmissionPolicy)
			next.Labels = map[string]string{"a": "b"}
			return next, nil
		}, registry.UpdateOptions{})
		return err
	}
	if err := create(t.Context(), "first"); err != nil {
		t.Fatal(err)
	}
	end, err := w.TakeTurns(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, write := range map[string]func(context.Context) error{
		"create": func(ctx context.Context) error { return create(ctx, "second") }, "update": update,
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		if err := write(ctx); !apierrors.IsTimeout(err) {
			t.Errorf("%s: got %v while others are validated, want a timeout", name, err)
		}
		cancel()
	}
	if _, err := maps.Create(t.Context(), "default", &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "m", Namespace: "default"}}, metav1.CreateOptions{}); err != nil {
		t.Errorf("a kind that is not costly: %v", err)
	}
	end()
	for _, err := range []error{create(t.Context(), "second"), update(t.Context())} {
		if err != nil {
			t.Errorf("got %v after the others", err)
		}
	}
}

// TestInvalidObjectsAreChargedToTheirUser has a user who sends many costly objects that are invalid wait for the next
// turn, and no one else.
func TestInvalidObjectsAreChargedToTheirUser(t *testing.T) {
	w := newWorld(t)
	policies := resource[*admissionregistrationv1.ValidatingAdmissionPolicy](w)
	if _, err := policies.Create(t.Context(), "", policy("first", "true", 1), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for name, send := range map[string]func(ctx context.Context) error{
		"create": func(ctx context.Context) error {
			_, err := policies.Create(ctx, "", policy("p", "object.(", 64), metav1.CreateOptions{})
			return err
		},
		"update": func(ctx context.Context) error {
			_, err := policies.Update(ctx, "", "first", func(current scheme.Object) (scheme.Object, error) {
				next := current.DeepCopyObject().(*admissionregistrationv1.ValidatingAdmissionPolicy)
				next.Spec = policy("first", "object.(", 64).Spec
				return next, nil
			}, registry.UpdateOptions{})
			return err
		},
	} {
		as := func(user string) context.Context { return authn.WithUser(t.Context(), authn.User{Name: user + name}) }
		for began := time.Now(); ; {
			// The debt grows until it takes longer to pay off than this request lasts.
			ctx, cancel := context.WithTimeout(as("hostile"), 100*time.Millisecond)
			err := send(ctx)
			cancel()
			if apierrors.IsTimeout(err) {
				break
			}
			if !apierrors.IsInvalid(err) || time.Since(began) > time.Minute {
				t.Fatalf("%s: got %v after %v", name, err, time.Since(began))
			}
		}
		if err := send(as("other")); !apierrors.IsInvalid(err) {
			t.Errorf("%s: another user got %v", name, err)
		}
	}
}

// policy returns a policy with so many rules of one expression.
func policy(name, expression string, rules int) *admissionregistrationv1.ValidatingAdmissionPolicy {
	p := &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}
	p.Spec.Validations = slices.Repeat([]admissionregistrationv1.Validation{{Expression: expression}}, rules)
	p.Spec.MatchConstraints = &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
		RuleWithOperations: admissionregistrationv1.RuleWithOperations{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
			Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
		},
	}}}
	return p
}
