package noderestriction

import (
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/admission/admissiontest"
	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
)

// TestNodeSlices: a node creates and deletes only its own ResourceSlices.
func TestNodeSlices(t *testing.T) {
	w := admissiontest.New(nodeNamed("n1"))
	kind := scheme.For[*resourcev1.ResourceSlice](w.Table)
	slice := func(node *string) *resourcev1.ResourceSlice {
		return &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Spec: resourcev1.ResourceSliceSpec{NodeName: node}}
	}
	own, other := "n1", "n2"
	ctx := authn.WithUser(t.Context(), authn.User{Name: authn.NodePrefix + "n1", Groups: []string{authn.GroupNodes}})
	for _, c := range []struct {
		node *string
		want string
	}{{&own, ""}, {&other, "ResourceSlice with the same NodeName as the requesting node"}, {nil, "ResourceSlice with the same NodeName as the requesting node"}} {
		created := nodeRestriction(w.Objects(), nil)(ctx, &admission.Request{Verb: admission.Create, Kind: kind, Name: "s", Object: slice(c.node)})
		deleted := nodeDeletions(ctx, &admission.Request{Verb: admission.Delete, Kind: kind, Name: "s", Old: slice(c.node)})
		for what, err := range map[string]error{"can only create ": created, "can only delete ": deleted} {
			if c.want == "" && err != nil || c.want != "" && (!apierrors.IsForbidden(err) || !strings.Contains(err.Error(), what+c.want)) {
				t.Errorf("%s%v: got %v", what, c.node, err)
			}
		}
	}
	if err := nodeDeletions(t.Context(), &admission.Request{Verb: admission.Delete, Kind: kind, Name: "s", Old: slice(&other)}); err != nil {
		t.Errorf("a user that is not a node: got %v", err)
	}
}

// TestNodeCertificateRequests: a node requests certificates only for pods that it runs, and with
// data that matches the stored objects.
func TestNodeCertificateRequests(t *testing.T) {
	mine := podOn("n1", "mine", func(pod *corev1.Pod) { pod.Spec.ServiceAccountName = "sa" })
	w := admissiontest.New(nodeNamed("n1"), mine, podOn("n2", "other"), mirrorOf("n1"),
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "sa", UID: "sa-uid"}})
	kind := scheme.For[*certificatesv1.PodCertificateRequest](w.Table)
	ctx := authn.WithUser(t.Context(), authn.User{Name: authn.NodePrefix + "n1", Groups: []string{authn.GroupNodes}})
	for want, change := range map[string]func(*certificatesv1.PodCertificateRequestSpec){
		"": func(*certificatesv1.PodCertificateRequestSpec) {},
		`403 PodCertificateRequest.Spec.NodeName="n2", which is not the requesting node "n1"`:                                                  func(s *certificatesv1.PodCertificateRequestSpec) { s.NodeName = "n2" },
		`500 PodCertificateRequest for pod "ns/mine" names node UID "x", inconsistent with the running node ("n1-uid")`:                        func(s *certificatesv1.PodCertificateRequestSpec) { s.NodeUID = "x" },
		`500 while retrieving pod "ns/none" named in the PodCertificateRequest`:                                                                func(s *certificatesv1.PodCertificateRequestSpec) { s.PodName = "none" },
		`500 PodCertificateRequest for pod "ns/mine" contains pod UID ("x") which differs from running pod "mine"`:                             func(s *certificatesv1.PodCertificateRequestSpec) { s.PodUID = "x" },
		`403 pod "ns/other" is not running on node "n1" named in the PodCertificateRequest`:                                                    func(s *certificatesv1.PodCertificateRequestSpec) { s.PodName, s.PodUID = "other", "other" },
		`403 pod "ns/mirror" is a mirror pod`:                                                                                                  func(s *certificatesv1.PodCertificateRequestSpec) { s.PodName, s.PodUID = "mirror", "mirror" },
		`403 PodCertificateRequest for pod "ns/mine" contains serviceAccountName ("x") that differs from running pod ("sa")`:                   func(s *certificatesv1.PodCertificateRequestSpec) { s.ServiceAccountName = "x" },
		`500 PodCertificateRequest for pod "ns/mine" names service account UID "x", which differs from the running service account ("sa-uid")`: func(s *certificatesv1.PodCertificateRequestSpec) { s.ServiceAccountUID = "x" },
	} {
		asked := &certificatesv1.PodCertificateRequest{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "r"}, Spec: certificatesv1.PodCertificateRequestSpec{
				NodeName: "n1", NodeUID: "n1-uid", PodName: "mine", PodUID: "mine", ServiceAccountName: "sa", ServiceAccountUID: "sa-uid",
			},
		}
		change(&asked.Spec)
		err := nodeRestriction(w.Objects(), nil)(ctx, &admission.Request{Verb: admission.Create, Kind: kind, Namespace: "ns", Name: "r", Object: asked})
		code, words, _ := strings.Cut(want, " ")
		switch {
		case want == "" && err == nil:
		case err == nil, want == "", (code == "403") != apierrors.IsForbidden(err), (code == "500") != apierrors.IsInternalError(err), !strings.Contains(err.Error(), words):
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
}
