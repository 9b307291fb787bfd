package attributes_test

import (
	"context"
	"errors"
	"testing"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/admission/attributes"
	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
	"github.com/garboard/garboard/services/apiserver/internal/http/authz"
)

// TestOf shows requests.
func TestOf(t *testing.T) {
	table := scheme.New()
	pods, namespaces := scheme.For[*corev1.Pod](table), scheme.For[*corev1.Namespace](table)
	controllers := scheme.For[*corev1.ReplicationController](table)
	ctx := authn.WithUser(t.Context(), authn.User{Name: "alice", UID: "u", Groups: []string{"g"}, Extra: map[string][]string{"k": {"v"}}})
	for _, tc := range []struct {
		name string
		req  *admission.Request
		want string // operation namespace/name resource/subresource kind
	}{
		{"a create", &admission.Request{Verb: admission.Create, Kind: pods, Namespace: "ns", Name: "p", Object: &corev1.Pod{}}, "CREATE ns/p pods/ Pod"},
		{"an update of a part", &admission.Request{Verb: admission.Update, Kind: pods, Namespace: "ns", Name: "p", Subresource: "status", Object: &corev1.Pod{}, Old: &corev1.Pod{}}, "UPDATE ns/p pods/status Pod"},
		{"a part of another kind", &admission.Request{Verb: admission.Update, Kind: controllers, Namespace: "ns", Name: "p", Subresource: "scale", Object: &autoscalingv1.Scale{}, Old: &autoscalingv1.Scale{}},
			"UPDATE ns/p replicationcontrollers/scale Scale"},
		{"a deletion", &admission.Request{Verb: admission.Delete, Kind: pods, Namespace: "ns", Name: "p", Old: &corev1.Pod{}, DryRun: true, Options: &metav1.DeleteOptions{}}, "DELETE ns/p pods/ Pod"},
		{"a namespace", &admission.Request{Verb: admission.Create, Kind: namespaces, Name: "n", Object: &corev1.Namespace{}}, "CREATE n/n namespaces/ Namespace"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := attributes.Of(ctx, tc.req)
			text := string(got.GetOperation()) + " " + got.GetNamespace() + "/" + got.GetName() + " " + got.GetResource().Resource + "/" + got.GetSubresource() + " " + got.GetKind().Kind
			if text != tc.want {
				t.Errorf("got %s, want %s", text, tc.want)
			}
			if (got.GetObject() == nil) != (tc.req.Object == nil) || (got.GetOldObject() == nil) != (tc.req.Old == nil) ||
				(got.GetOperationOptions() == nil) != (tc.req.Options == nil) || got.IsDryRun() != tc.req.DryRun {
				t.Errorf("got %+v", got)
			}
			if u := got.GetUserInfo(); u.GetName() != "alice" || u.GetUID() != "u" || u.GetGroups()[0] != "g" || u.GetExtra()["k"][0] != "v" {
				t.Errorf("got user %+v", u)
			}
		})
	}
	if u := attributes.Of(t.Context(), &admission.Request{Verb: admission.Create, Kind: pods}).GetUserInfo(); u == nil || u.GetName() != "" {
		t.Errorf("without a user: got %+v", u)
	}
}

// asked is an authorizer that remembers its question.
type asked struct {
	decision authz.Decision
	err      error
	who      authn.User
	about    authz.Attributes
}

func (a *asked) Authorize(_ context.Context, who authn.User, about authz.Attributes) (authz.Decision, string, error) {
	a.who, a.about = who, about
	return a.decision, "why", a.err
}

// TestAuthorizer asks ours.
func TestAuthorizer(t *testing.T) {
	field, _ := fields.ParseSelector("spec.nodeName=n")
	label, _ := labels.ParseToRequirements("a=b")
	broken := errors.New("broken")
	resource := authorizer.AttributesRecord{
		User: &user.DefaultInfo{Name: "bob", Groups: []string{"g"}}, Verb: "list", Namespace: "ns", APIGroup: "apps", APIVersion: "v1", Resource: "deployments",
		Subresource: "scale", Name: "d", ResourceRequest: true, FieldSelectorRequirements: field.Requirements(), LabelSelectorRequirements: label, LabelSelectorParsingErr: broken,
	}
	path := authorizer.AttributesRecord{User: &user.DefaultInfo{Name: "bob"}, Verb: "get", Path: "/metrics"}
	for ours, theirs := range map[authz.Decision]authorizer.Decision{
		authz.Allow: authorizer.DecisionAllow, authz.Deny: authorizer.DecisionDeny, authz.NoOpinion: authorizer.DecisionNoOpinion,
	} {
		a := &asked{decision: ours, err: broken}
		if got, why, err := (attributes.Authorizer{By: a}).Authorize(t.Context(), resource); got != theirs || why != "why" || !errors.Is(err, broken) {
			t.Errorf("got %v, %s, %v, want %v", got, why, err, theirs)
		}
		if a.who.Name != "bob" || a.who.Groups[0] != "g" || a.about.Verb != "list" || a.about.Group != "apps" || a.about.Version != "v1" || a.about.Resource != "deployments" ||
			a.about.Subresource != "scale" || a.about.Namespace != "ns" || a.about.Name != "d" || len(a.about.Fields) != 1 || len(a.about.Labels) != 1 || !errors.Is(a.about.LabelsErr, broken) || !a.about.IsResource() {
			t.Errorf("asked %+v about %+v", a.who, a.about)
		}
		if _, _, err := (attributes.Authorizer{By: a}).Authorize(t.Context(), path); !errors.Is(err, broken) || a.about.IsResource() || a.about.Path != "/metrics" || a.about.Verb != "get" {
			t.Errorf("asked about %+v", a.about)
		}
	}
	if got, _, err := (attributes.Authorizer{}).Authorize(t.Context(), resource); got != authorizer.DecisionNoOpinion || err != nil {
		t.Errorf("without one: got %v, %v", got, err)
	}
}
