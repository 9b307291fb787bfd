package resourceclaims_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/admission/admissiontest"
	"github.com/garboard/garboard/services/apiserver/internal/admission/resourceclaims"
	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
	"github.com/garboard/garboard/services/apiserver/internal/http/authz"
)

// plugin lets users do what rights list: "verb part name".
func plugin(rights ...string) admission.Plugin {
	return resourceclaims.Plugin(resourceclaims.Config{
		Authorizer: &admissiontest.Authorizer{Allow: func(a authz.Attributes) bool {
			return a.Group == "resource.k8s.io" && a.Resource == "resourceclaims" && slices.Contains(rights, a.Verb+" "+a.Subresource+" "+a.Namespace+"/"+a.Name)
		}},
		Namespace: func(_ context.Context, name string) (*corev1.Namespace, error) {
			switch name {
			case "admins":
				return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"resource.kubernetes.io/admin-access": "true"}}}, nil
			case "ns":
				return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, nil
			}
			return nil, apierrors.NewNotFound(corev1.Resource("namespaces"), name)
		},
	})
}

func admit(w *admissiontest.World, user authn.User, req *admission.Request, p admission.Plugin) error {
	req.Kind, req.Namespace, req.Name = w.Table.KindOf(req.Object), req.Object.GetNamespace(), req.Object.GetName()
	return p.Validate(authn.WithUser(context.Background(), user), req)
}

func expect(t *testing.T, err error, want string) {
	t.Helper()
	if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || !apierrors.IsInvalid(err)) {
		t.Errorf("got %v, want %q", err, want)
	}
}

// TestAdministrators checks who may ask for the access of an administrator.
func TestAdministrators(t *testing.T) {
	const refused = "spec.devices.requests[1].adminAccess: Forbidden: admin access to devices requires the `resource.kubernetes.io/admin-access: true` label on the containing namespace"
	w := admissiontest.New()
	for _, tc := range []struct {
		namespace, want string
		access          bool
	}{
		{"admins", "", true}, {"ns", refused, true}, {"ns", "", false},
		{"none", `could not retrieve namespace to verify admin access: namespaces "none" not found`, true},
	} {
		spec := resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{
			{Name: "a", FirstAvailable: []resourcev1.DeviceSubRequest{{}}}, {Name: "b", Exactly: &resourcev1.ExactDeviceRequest{AdminAccess: &tc.access}},
		}}}
		meta := metav1.ObjectMeta{Name: "c", Namespace: tc.namespace}
		template := &resourcev1.ResourceClaimTemplate{ObjectMeta: meta, Spec: resourcev1.ResourceClaimTemplateSpec{Spec: spec}}
		for _, obj := range []scheme.Object{&resourcev1.ResourceClaim{ObjectMeta: meta, Spec: spec}, template} {
			expect(t, admit(w, authn.User{Name: "alice"}, &admission.Request{Verb: admission.Create, Object: obj}, plugin()), tc.want)
			expect(t, admit(w, authn.User{Name: "alice"}, &admission.Request{Verb: admission.Update, Object: obj, Old: obj}, plugin()), "")
		}
	}
}

// TestStatus checks which rights the parts of a status need.
func TestStatus(t *testing.T) {
	claim := func(change ...func(*resourcev1.ResourceClaim)) *resourcev1.ResourceClaim {
		c := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: "ns"}}
		for _, f := range change {
			f(c)
		}
		return c
	}
	allocated := func(c *resourcev1.ResourceClaim) {
		c.Status.Allocation = &resourcev1.AllocationResult{NodeSelector: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: "In", Values: []string{"n1"}}},
		}}}}
	}
	administered := func(c *resourcev1.ResourceClaim) {
		c.Status.Allocation.Devices.Results = []resourcev1.DeviceRequestAllocationResult{{AdminAccess: new(true)}}
	}
	device := func(driver, data string) func(*resourcev1.ResourceClaim) {
		return func(c *resourcev1.ResourceClaim) {
			c.Status.Devices = append(c.Status.Devices, resourcev1.AllocatedDeviceStatus{Driver: driver, Pool: data})
		}
	}
	alice := authn.User{Name: "alice"}
	robot := authn.User{Name: "system:serviceaccount:ns:robot", Extra: map[string][]string{authn.ExtraNodeName: {"n1"}}}
	elsewhere := authn.User{Name: robot.Name, Extra: map[string][]string{authn.ExtraNodeName: {"n2"}}}
	const binding = `status.allocation: Forbidden: changing status.allocation or status.reservedFor requires resource="resourceclaims/binding", verb="update" permission: ` +
		`resourceclaims.resource.k8s.io is forbidden: User "alice" cannot update resource "resourceclaims/binding" in API group "resource.k8s.io" at the cluster scope: no RBAC policy matched`
	const driver = `status.devices: Forbidden: changing status.devices requires resource="resourceclaims/driver", verb="[arbitrary-node:update]" permission: ` +
		`resourceclaims.resource.k8s.io "d" is forbidden: User "alice" cannot arbitrary-node:update resource "resourceclaims/driver" in API group "resource.k8s.io" in the namespace "ns"`
	w := admissiontest.New()
	for name, tc := range map[string]struct {
		user     authn.User
		old, obj *resourcev1.ResourceClaim
		options  bool // of a patch
		rights   []string
		want     string
	}{
		"nothing changes":              {alice, claim(allocated), claim(allocated), false, nil, ""},
		"an allocation":                {alice, claim(), claim(allocated), false, nil, binding},
		"an allocation with the right": {alice, claim(), claim(allocated), false, []string{"update binding /"}, ""},
		"a patch":                      {alice, claim(), claim(allocated), true, []string{"update binding /"}, `verb="patch" permission`},
		"a reservation": {alice, claim(), claim(func(c *resourcev1.ResourceClaim) {
			c.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Name: "p"}}
		}), false, nil, binding},
		"a device":                     {alice, claim(allocated), claim(allocated, device("d", "a")), false, nil, driver},
		"a changed device":             {alice, claim(allocated, device("d", "a")), claim(allocated, device("d", "b")), false, nil, driver},
		"a device that is gone":        {alice, claim(allocated, device("d", "a")), claim(allocated), false, nil, driver},
		"a device with the right":      {alice, claim(allocated), claim(allocated, device("d", "a")), false, []string{"arbitrary-node:update driver ns/d"}, ""},
		"one of two drivers":           {alice, claim(allocated), claim(allocated, device("d", "a"), device("e", "a")), false, []string{"arbitrary-node:update driver ns/e"}, driver},
		"a driver on the node":         {robot, claim(allocated), claim(allocated, device("d", "a")), false, []string{"associated-node:update driver ns/d"}, ""},
		"a driver on another node":     {elsewhere, claim(allocated), claim(allocated, device("d", "a")), false, []string{"associated-node:update driver ns/d"}, `verb="[arbitrary-node:update]"`},
		"a device without allocation":  {alice, claim(), claim(device("d", "a")), false, nil, ""},
		"the access of administrators": {alice, claim(), claim(allocated, administered), false, []string{"update binding /"}, "status.allocation.devices.results[0].adminAccess: Forbidden: admin access"},
		"which was there":              {alice, claim(allocated, administered), claim(allocated, administered), false, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			req := &admission.Request{Verb: admission.Update, Subresource: "status", Object: tc.obj, Old: tc.old, Options: &metav1.UpdateOptions{}}
			if tc.options {
				req.Options = &metav1.PatchOptions{}
			}
			expect(t, admit(w, tc.user, req, plugin(tc.rights...)), tc.want)
		})
	}
}
