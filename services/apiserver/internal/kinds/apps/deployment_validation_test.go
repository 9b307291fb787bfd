package apps

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/errortest"
)

func TestDeployment(t *testing.T) {
	deployment := func() *appsv1.Deployment {
		return &appsv1.Deployment{ObjectMeta: meta(), Spec: appsv1.DeploymentSpec{Selector: selector(), Template: pods()}}
	}
	type d = *appsv1.Deployment
	check(t, deployment, defaultDeployment, validateDeployment, append(templates(func(d d) *corev1.PodTemplateSpec { return &d.Spec.Template }, "ReplicaSet"), []rule[d]{
		{"negative numbers", func(d d) {
			d.Spec.Replicas, d.Spec.MinReadySeconds, d.Spec.RevisionHistoryLimit, d.Spec.ProgressDeadlineSeconds = new(int32(-1)), -2, new(int32(-3)), new(int32(-1))
		}, []string{
			"spec.replicas: Invalid value: -1: must be greater than or equal to 0", "spec.minReadySeconds: Invalid value: -2: must be greater than or equal to 0",
			"spec.revisionHistoryLimit: Invalid value: -3: must be greater than or equal to 0", "spec.progressDeadlineSeconds: Invalid value: -1: must be greater than or equal to 0",
		}},
		{"name", func(d d) { d.Name = "A" }, []string{`metadata.name: Invalid value: "A": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`}},
		{"no selector", func(d d) { d.Spec.Selector = nil }, []string{"spec.selector: Required value", "spec.template.metadata.labels: Invalid value: {\"app\":\"web\"}: `selector` does not match template `labels`"}},
		{"empty selector", func(d d) { d.Spec.Selector = &metav1.LabelSelector{} }, []string{"spec.selector: Invalid value: {}: empty selector is invalid for deployment"}},
		{"bad selector", func(d d) {
			d.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}
		}, []string{
			`spec.selector.matchExpressions[0].operator: Invalid value: "Near": not a valid selector operator`,
			`spec.selector: Invalid value: {"matchLabels":{"app":"web"},"matchExpressions":[{"key":"a","operator":"Near"}]}: invalid label selector`,
		}},
		{"strategy", func(d d) { d.Spec.Strategy.Type = "Big" }, []string{`spec.strategy: Unsupported value: {"type":"Big"}: supported values: "Recreate", "RollingUpdate"`}},
		{"recreate rolling", func(d d) {
			d.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType, RollingUpdate: &appsv1.RollingUpdateDeployment{}}
		}, []string{"spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'"}},
		{"nothing moves", func(d d) {
			d.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{MaxSurge: new(intstr.FromInt32(0)), MaxUnavailable: new(intstr.FromString("0%"))}
		}, []string{"spec.strategy.rollingUpdate.maxUnavailable: Invalid value: \"0%\": may not be 0 when `maxSurge` is 0"}},
		{"too many percent", func(d d) {
			d.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{MaxUnavailable: new(intstr.FromString("101%")), MaxSurge: new(intstr.FromString("x"))}
		}, []string{
			`spec.strategy.rollingUpdate.maxSurge: Invalid value: "x": a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')`,
			`spec.strategy.rollingUpdate.maxUnavailable: Invalid value: "101%": must not be greater than 100%`,
		}},
		{"negative surge", func(d d) {
			d.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{MaxSurge: new(intstr.FromInt32(-1))}
		}, []string{"spec.strategy.rollingUpdate.maxSurge: Invalid value: -1: must be greater than or equal to 0"}},
		{"progress deadline", func(d d) { d.Spec.ProgressDeadlineSeconds, d.Spec.MinReadySeconds = new(int32(5)), 5 }, []string{"spec.progressDeadlineSeconds: Invalid value: 5: must be greater than minReadySeconds"}},
	}...))
	old, changed := deployment(), deployment()
	defaultDeployment(old)
	defaultDeployment(changed)
	changed.Spec.Selector.MatchLabels, changed.Spec.Template.Labels = map[string]string{"a": "b"}, map[string]string{"a": "b"}
	errortest.Exactly(t, validateDeploymentUpdate(changed, old), `spec.selector: Invalid value: {"matchLabels":{"a":"b"}}: field is immutable`)
	old.Status.CollisionCount = new(int32(2))
	changed.Status = appsv1.DeploymentStatus{ObservedGeneration: -1, Replicas: 1, UpdatedReplicas: 2, ReadyReplicas: 2, AvailableReplicas: 3, UnavailableReplicas: -1, TerminatingReplicas: new(int32(-1))}
	errortest.Exactly(t, validateDeploymentStatus(changed, old),
		"status.observedGeneration: Invalid value: -1: must be greater than or equal to 0", "status.updatedReplicas: Invalid value: 2: cannot be greater than status.replicas",
		"status.readyReplicas: Invalid value: 2: cannot be greater than status.replicas", "status.availableReplicas: Invalid value: 3: cannot be greater than status.replicas",
		"status.availableReplicas: Invalid value: 3: cannot be greater than readyReplicas", "status.terminatingReplicas: Invalid value: -1: must be greater than or equal to 0",
		"status.unavailableReplicas: Invalid value: -1: must be greater than or equal to 0", "status.collisionCount: Invalid value: 0: cannot be decremented")
}
