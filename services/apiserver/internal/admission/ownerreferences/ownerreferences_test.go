package ownerreferences

import (
	"testing"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/admission/admissiontest"
	"github.com/garboard/garboard/services/apiserver/internal/http/authz"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestOwnerReferencesPermissionEnforcement(t *testing.T) {
	yes := true
	owned := func(uid, version, kind string, blocks *bool) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.OwnerReferences = append(p.OwnerReferences, metav1.OwnerReference{APIVersion: version, Kind: kind, Name: "owner", UID: types.UID(uid), BlockOwnerDeletion: blocks})
		}
	}
	set := owned("1", "apps/v1", "ReplicaSet", nil)
	blocking := owned("1", "apps/v1", "ReplicaSet", &yes)
	const (
		cannotDelete = "cannot set an ownerRef on a resource you can't delete: no RBAC policy matched, <nil>"
		cannotBlock  = "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: no RBAC policy matched, <nil>"
	)
	mayDelete := func(a authz.Attributes) bool {
		return a.Verb == "delete" && a.Resource == "pods" && a.Namespace == "ns" && a.Name == "p"
	}
	mayBlock := func(a authz.Attributes) bool {
		return a.Verb == "update" && a.Group == "apps" && a.Resource == "replicasets" && a.Subresource == "finalizers" && a.Namespace == "ns" && a.Name == "owner"
	}
	mayBlockNodes := func(a authz.Attributes) bool {
		return a.Verb == "update" && a.Resource == "nodes" && a.Subresource == "finalizers" && a.Namespace == ""
	}
	for _, tc := range []struct {
		name string
		req  *admission.Request
		may  func(authz.Attributes) bool
		want string
	}{
		{"create without owners", &admission.Request{Object: admissiontest.Pod()}, nil, ""},
		{"create with an owner", &admission.Request{Object: admissiontest.Pod(set)}, nil, ""},
		{"create that blocks", &admission.Request{Object: admissiontest.Pod(blocking)}, nil, `pods "p" is forbidden: ` + cannotBlock},
		{"create that may block", &admission.Request{Object: admissiontest.Pod(blocking)}, mayBlock, ""},
		{"create that blocks a node", &admission.Request{Object: admissiontest.Pod(owned("2", "v1", "Node", &yes))}, mayBlockNodes, ""},
		{"create that blocks an unknown kind", &admission.Request{Object: admissiontest.Pod(owned("1", "v1", "Thing", &yes))}, mayBlock, `cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion v1 Kind Thing: no matches for kind "Thing" in version "v1"`},
		{"update that changes nothing", &admission.Request{Verb: admission.Update, Object: admissiontest.Pod(blocking), Old: admissiontest.Pod(blocking)}, nil, ""},
		{"update that adds an owner", &admission.Request{Verb: admission.Update, Object: admissiontest.Pod(set), Old: admissiontest.Pod()}, nil, cannotDelete},
		{"update that removes an owner", &admission.Request{Verb: admission.Update, Object: admissiontest.Pod(), Old: admissiontest.Pod(set)}, nil, cannotDelete},
		{"update with the right to delete", &admission.Request{Verb: admission.Update, Object: admissiontest.Pod(set), Old: admissiontest.Pod()}, mayDelete, ""},
		{"update that newly blocks", &admission.Request{Verb: admission.Update, Object: admissiontest.Pod(blocking), Old: admissiontest.Pod(set)}, mayDelete, cannotBlock},
		{"update of an owner that already blocks", &admission.Request{Verb: admission.Update, Object: admissiontest.Pod(blocking, owned("2", "v1", "Node", nil)), Old: admissiontest.Pod(blocking)}, mayDelete, ""},
		{"a pod's status", &admission.Request{Verb: admission.Update, Object: admissiontest.Pod(set), Old: admissiontest.Pod(), Subresource: "status"}, nil, ""},
		{"delete", &admission.Request{Verb: admission.Delete, Old: admissiontest.Pod(blocking)}, nil, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := &admissiontest.Authorizer{Allow: tc.may}
			w := admissiontest.New()
			_, err := w.Admit(t, tc.req, Plugin(w.Table, a))
			admissiontest.Refused(t, err, tc.want)
			for _, user := range a.By {
				if user != "alice" {
					t.Errorf("the authorizer was asked about %q, want alice", user)
				}
			}
		})
	}
}
