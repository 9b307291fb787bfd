package apps

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/errortest"
)

func web() map[string]string { return map[string]string{"app": "web"} }

func TestReplicationController(t *testing.T) {
	controller := func() *corev1.ReplicationController {
		return &corev1.ReplicationController{ObjectMeta: meta(), Spec: corev1.ReplicationControllerSpec{Selector: web(), Template: new(pods())}}
	}
	type rc = *corev1.ReplicationController
	check(t, controller, defaultReplicationController, validateReplicationController, append(templates(func(r rc) *corev1.PodTemplateSpec { return r.Spec.Template }, "ReplicationController"), []rule[rc]{
		{"negative numbers", func(r rc) { r.Spec.Replicas, r.Spec.MinReadySeconds = new(int32(-1)), -2 }, []string{
			"spec.minReadySeconds: Invalid value: -2: must be greater than or equal to 0", "spec.replicas: Invalid value: -1: must be greater than or equal to 0",
		}},
		{"nothing", func(r rc) { r.Spec.Template, r.Spec.Selector = nil, nil }, []string{"spec.selector: Required value", "spec.template: Required value"}},
		{"selector from the labels", func(r rc) { r.Spec.Selector = nil }, nil},
	}...))
	r := controller()
	r.Status = corev1.ReplicationControllerStatus{Replicas: -1}
	errortest.Exactly(t, validateReplicationControllerStatus(r, r), "status.replicas: Invalid value: -1: must be greater than or equal to 0",
		"status.fullyLabeledReplicas: Invalid value: 0: cannot be greater than status.replicas", "status.readyReplicas: Invalid value: 0: cannot be greater than status.replicas",
		"status.availableReplicas: Invalid value: 0: cannot be greater than status.replicas")
	defaultReplicationController(r)
	r.Spec.Replicas = new(int32(-5))
	errortest.Exactly(t, validateReplicationControllerUpdate(r, controller()), "spec.replicas: Invalid value: -5: must be greater than or equal to 0")
}
