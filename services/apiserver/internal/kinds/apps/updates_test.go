package apps

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/errortest"
)

// TestTemplatesThatStay checks that an object with a template that would be refused if it were new can
// still be changed.
func TestTemplatesThatStay(t *testing.T) {
	outdated := pods()
	outdated.Spec.InitContainers = []corev1.Container{{Name: "i", Image: "b", ResizePolicy: []corev1.ContainerResizePolicy{
		{ResourceName: corev1.ResourceCPU, RestartPolicy: corev1.RestartContainer},
	}}}
	for _, tc := range []struct {
		kind *kinds.Definition
		obj  scheme.Object
	}{
		{Deployment(), &appsv1.Deployment{ObjectMeta: meta(), Spec: appsv1.DeploymentSpec{Selector: selector(), Template: outdated}}},
		{ReplicaSet(), &appsv1.ReplicaSet{ObjectMeta: meta(), Spec: appsv1.ReplicaSetSpec{Selector: selector(), Template: outdated}}},
		{DaemonSet(), &appsv1.DaemonSet{ObjectMeta: meta(), Spec: appsv1.DaemonSetSpec{Selector: selector(), Template: outdated}}},
		{StatefulSet(), &appsv1.StatefulSet{ObjectMeta: meta(), Spec: appsv1.StatefulSetSpec{Selector: selector(), Template: outdated}}},
		{ReplicationController(), &corev1.ReplicationController{ObjectMeta: meta(), Spec: corev1.ReplicationControllerSpec{Selector: web(), Template: outdated.DeepCopy()}}},
	} {
		obj := tc.obj.DeepCopyObject().(scheme.Object)
		tc.kind.Default(obj)
		errortest.Exactly(t, tc.kind.Validate(obj), `spec.template.spec.initContainers[0].resizePolicy[0].restartPolicy: Invalid value: "RestartContainer": `+
			"must not be set to 'RestartContainer' for non-sidecar initContainers")
		errortest.Exactly(t, tc.kind.Update.Validate(obj.DeepCopyObject().(scheme.Object), obj))
	}
}
