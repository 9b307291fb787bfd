package policyparams_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	registrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/admission/admissiontest"
	"github.com/garboard/garboard/services/apiserver/internal/admission/policyparams"
	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
	"github.com/garboard/garboard/services/apiserver/internal/http/authz"
)

// config lets users do what rights list, "verb group/version/resource namespace/name". The policy "known" has
// ConfigMaps as parameters, "odd" what is no version, and "none" none.
func config(w *admissiontest.World, rights ...string) policyparams.Config {
	kinds := map[string]*registrationv1.ParamKind{
		"known": {APIVersion: "v1", Kind: "ConfigMap"}, "odd": {APIVersion: "a/b/c", Kind: "X"}, "gone": {APIVersion: "example.org/v1", Kind: "Gone"}, "none": nil,
	}
	return policyparams.Config{
		Table: w.Table,
		Authorizer: &admissiontest.Authorizer{Allow: func(a authz.Attributes) bool {
			return slices.Contains(rights, a.Verb+" "+a.Group+"/"+a.Version+"/"+a.Resource+" "+a.Namespace+"/"+a.Name)
		}},
		Validating: func(_ context.Context, name string) (*registrationv1.ValidatingAdmissionPolicy, error) {
			kind, ok := kinds[name]
			if !ok {
				return nil, apierrors.NewNotFound(schema.GroupResource{}, name)
			}
			return &registrationv1.ValidatingAdmissionPolicy{Spec: registrationv1.ValidatingAdmissionPolicySpec{ParamKind: kind}}, nil
		},
		Mutating: func(_ context.Context, name string) (*registrationv1.MutatingAdmissionPolicy, error) {
			kind, ok := kinds[name]
			if !ok {
				return nil, apierrors.NewNotFound(schema.GroupResource{}, name)
			}
			return &registrationv1.MutatingAdmissionPolicy{Spec: registrationv1.MutatingAdmissionPolicySpec{ParamKind: kind}}, nil
		},
	}
}

// expect has the user alice write obj over old.
func expect(t *testing.T, w *admissiontest.World, cfg policyparams.Config, obj, old scheme.Object, want string) {
	t.Helper()
	req := &admission.Request{Verb: admission.Create, Kind: w.Table.KindOf(obj), Object: obj, Name: obj.GetName()}
	if old != nil {
		req.Verb, req.Old = admission.Update, old
	}
	err := policyparams.Plugin(cfg).Validate(authn.WithUser(t.Context(), authn.User{Name: "alice", Groups: []string{"g"}}), req)
	if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || !apierrors.IsInvalid(err)) {
		t.Errorf("%T: got %v, want %q", obj, err, want)
	}
	for _, ctx := range []context.Context{
		t.Context(), authn.WithUser(t.Context(), authn.User{Name: "root", Groups: []string{authn.GroupMasters}}),
	} {
		if err := policyparams.Plugin(cfg).Validate(ctx, req); err != nil {
			t.Errorf("%T: an administrator, or the apiserver itself, got %v", obj, err)
		}
	}
}

// policies returns a policy of each kind with parameters.
func policies(of *registrationv1.ParamKind) []scheme.Object {
	name := metav1.ObjectMeta{Name: "p"}
	return []scheme.Object{
		&registrationv1.ValidatingAdmissionPolicy{ObjectMeta: name, Spec: registrationv1.ValidatingAdmissionPolicySpec{ParamKind: of}},
		&registrationv1.MutatingAdmissionPolicy{ObjectMeta: name, Spec: registrationv1.MutatingAdmissionPolicySpec{ParamKind: of}},
	}
}

// bindings returns a binding of each kind to a policy.
func bindings(policy string, ref *registrationv1.ParamRef) []scheme.Object {
	name := metav1.ObjectMeta{Name: "b"}
	return []scheme.Object{
		&registrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: name, Spec: registrationv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: policy, ParamRef: ref}},
		&registrationv1.MutatingAdmissionPolicyBinding{ObjectMeta: name, Spec: registrationv1.MutatingAdmissionPolicyBindingSpec{PolicyName: policy, ParamRef: ref}},
	}
}

// TestPolicies checks who may write a policy with parameters.
func TestPolicies(t *testing.T) {
	const refused = `spec.paramKind: Forbidden: user &{alice  [g] map[]} must have "get" permission on all objects of the referenced paramKind (kind=ConfigMap, apiVersion=v1)`
	w := admissiontest.New()
	maps := &registrationv1.ParamKind{APIVersion: "v1", Kind: "ConfigMap"}
	for i := range policies(nil) {
		expect(t, w, config(w), policies(nil)[i], nil, "")
		expect(t, w, config(w), policies(maps)[i], nil, refused)
		expect(t, w, config(w, "get /v1/configmaps */*"), policies(maps)[i], nil, "")
		expect(t, w, config(w, "get /v1/configmaps ns/*", "list /v1/configmaps */*"), policies(maps)[i], nil, refused)
		expect(t, w, config(w), policies(maps)[i], policies(nil)[i], refused)
		expect(t, w, config(w), policies(maps)[i], policies(maps)[i], "")
		expect(t, w, config(w), policies(nil)[i], policies(maps)[i], "")
		unserved := &registrationv1.ParamKind{APIVersion: "example.org/v1", Kind: "Gone"}
		expect(t, w, config(w, "get example.org/v1/gones */*"), policies(unserved)[i], nil, "spec.paramKind: Forbidden")
		expect(t, w, config(w, "get example.org/v1/* */*"), policies(unserved)[i], nil, "")
	}
}

// TestBindings checks who may bind a policy to which parameters.
func TestBindings(t *testing.T) {
	const (
		refused = `spec.paramRef: Forbidden: user &{alice  [g] map[]} does not have "get" permission on the object referenced by paramRef`
		listing = `spec.paramRef: Forbidden: user &{alice  [g] map[]} does not have "list" permission on the object referenced by paramRef`
		unknown = ` to determine minimum required permissions and user &{alice  [g] map[]} does not have "get" permission for all groups, versions and resources`
	)
	w := admissiontest.New()
	one, labelled := &registrationv1.ParamRef{Namespace: "ns", Name: "n"}, &registrationv1.ParamRef{Selector: &metav1.LabelSelector{}}
	for i := range bindings("", nil) {
		binding := func(policy string, ref *registrationv1.ParamRef) scheme.Object { return bindings(policy, ref)[i] }
		expect(t, w, config(w), binding("known", nil), nil, "")
		expect(t, w, config(w), binding("known", one), nil, refused)
		expect(t, w, config(w, "get /v1/configmaps ns/n"), binding("known", one), nil, "")
		expect(t, w, config(w, "get /v1/configmaps ns/m"), binding("known", one), nil, refused)
		expect(t, w, config(w), binding("known", labelled), nil, listing)
		expect(t, w, config(w, "list /v1/configmaps /"), binding("known", labelled), nil, "")
		expect(t, w, config(w), binding("known", one), binding("known", one), "")
		expect(t, w, config(w), binding("known", one), binding("none", one), refused)
		expect(t, w, config(w), binding("known", one), binding("known", labelled), refused)
		expect(t, w, config(w), binding("missing", one), nil, "unable to get policy missing"+unknown)
		expect(t, w, config(w), binding("odd", one), nil, "unable to parse paramKind "+"&ParamKind{APIVersion:a/b/c,Kind:X,}"+unknown)
		expect(t, w, config(w), binding("gone", one), nil, "unable to resolve paramKind "+"&ParamKind{APIVersion:example.org/v1,Kind:Gone,}"+unknown)
		expect(t, w, config(w, "get */*/* ns/n"), binding("missing", one), nil, "")
	}
}

// TestCatchUp checks that a write is refused only by what etcd holds.
func TestCatchUp(t *testing.T) {
	w := admissiontest.New()
	late, cfg := false, config(w)
	cfg.Authorizer = &admissiontest.Authorizer{Allow: func(authz.Attributes) bool { return late }}
	cfg.CatchUp = func(context.Context) error { late = true; return nil }
	expect(t, w, cfg, policies(&registrationv1.ParamKind{APIVersion: "v1", Kind: "ConfigMap"})[0], nil, "")
	if !late {
		t.Error("nothing waited")
	}
}
