package systemobjects_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/garboard/garboard/services/apiserver/internal/registry/registrytest"
)

// TestAnotherMetricsServer expects that the APIService of somebody else's metrics server stays as it is, and
// that the plane's own comes back when it is deleted.
func TestAnotherMetricsServer(t *testing.T) {
	t.Parallel()
	const name = "v1beta1.metrics.k8s.io"
	w := registrytest.New(t)
	ensure := func() *apiregistrationv1.APIService {
		t.Helper()
		if err := w.Objects.Ensure(t.Context()); err != nil {
			t.Fatal(err)
		}
		return registrytest.Get[*apiregistrationv1.APIService](w, "", name)
	}
	if own := ensure(); own.Spec.Service != nil || own.Spec.GroupPriorityMinimum != 100 || own.Spec.VersionPriority != 100 {
		t.Errorf("the plane's own is %+v", own.Spec)
	}
	port := int32(443)
	_, err := registrytest.Update(w, "", name, "", func(s *apiregistrationv1.APIService) {
		s.Spec.Service = &apiregistrationv1.ServiceReference{Namespace: metav1.NamespaceSystem, Name: "metrics-server", Port: &port}
		s.Spec.InsecureSkipTLSVerify, s.Spec.VersionPriority = true, 7
	})
	if err != nil {
		t.Fatal(err)
	}
	if given := ensure(); given.Spec.Service == nil || given.Spec.Service.Name != "metrics-server" || given.Spec.VersionPriority != 7 {
		t.Errorf("another's became %+v", given.Spec)
	}
	w.Etcd.DeletePrefix(t, "/registry/apiregistration.k8s.io/apiservices/"+name)
	if own := ensure(); own.Spec.Service != nil || own.Spec.VersionPriority != 100 {
		t.Errorf("after the deletion it is %+v", own.Spec)
	}
}
