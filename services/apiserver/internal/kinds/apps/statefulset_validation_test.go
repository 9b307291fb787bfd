package apps

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/errortest"
)

func TestStatefulSet(t *testing.T) {
	claim := func(name string) corev1.PersistentVolumeClaim {
		return corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{"storage": resource.MustParse("1Gi")}},
		}}
	}
	set := func() *appsv1.StatefulSet {
		return &appsv1.StatefulSet{ObjectMeta: meta(), Spec: appsv1.StatefulSetSpec{Selector: selector(), Template: pods()}}
	}
	type s = *appsv1.StatefulSet
	rolling := func(value intstr.IntOrString) func(s) {
		return func(s s) {
			s.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{MaxUnavailable: &value}
		}
	}
	check(t, set, defaultStatefulSet, validateStatefulSet, append(templates(func(s s) *corev1.PodTemplateSpec { return &s.Spec.Template }, "StatefulSet"), []rule[s]{
		{"name", func(s s) { s.Name = "a.b" }, []string{`metadata.name: Invalid value: "a.b": must not contain dots`}},
		{"policy", func(s s) { s.Spec.PodManagementPolicy = "Odd" }, []string{`spec.podManagementPolicy: Invalid value: "Odd": must be 'OrderedReady' or 'Parallel'`}},
		{"strategy", func(s s) { s.Spec.UpdateStrategy.Type = "Odd" }, []string{`spec.updateStrategy: Invalid value: {"type":"Odd"}: must be 'RollingUpdate' or 'OnDelete'`}},
		{"rolling on delete", func(s s) {
			s.Spec.UpdateStrategy = appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType, RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{}}
		}, []string{"spec.updateStrategy.rollingUpdate: Invalid value: {\"partition\":0}: only allowed for updateStrategy 'RollingUpdate'"}},
		{"partition", func(s s) {
			s.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{Partition: new(int32(-1))}
		}, []string{"spec.updateStrategy.rollingUpdate.partition: Invalid value: -1: must be greater than or equal to 0"}},
		{"nothing unavailable", rolling(intstr.FromInt32(0)), []string{"spec.updateStrategy.rollingUpdate.maxUnavailable: Invalid value: 0: cannot be 0"}},
		{"too much unavailable", rolling(intstr.FromString("101%")), []string{`spec.updateStrategy.rollingUpdate.maxUnavailable: Invalid value: "101%": must not be greater than 100%`}},
		{"retention", func(s s) {
			s.Spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{WhenDeleted: "Keep", WhenScaled: "Burn"}
		}, []string{
			`spec.persistentVolumeClaimRetentionPolicy.whenDeleted: Unsupported value: "Keep": supported values: "Retain", "Delete"`,
			`spec.persistentVolumeClaimRetentionPolicy.whenScaled: Unsupported value: "Burn": supported values: "Retain", "Delete"`,
		}},
		{"negative numbers", func(s s) {
			s.Spec.Replicas, s.Spec.MinReadySeconds, s.Spec.Ordinals = new(int32(-1)), -2, &appsv1.StatefulSetOrdinals{Start: -3}
		}, []string{
			"spec.replicas: Invalid value: -1: must be greater than or equal to 0", "spec.minReadySeconds: Invalid value: -2: must be greater than or equal to 0",
			"spec.ordinals.start: Invalid value: -3: must be greater than or equal to 0",
		}},
		{"no selector", func(s s) { s.Spec.Selector = nil }, []string{"spec.selector: Required value", "spec.template.metadata.labels: Invalid value: {\"app\":\"web\"}: `selector` does not match template `labels`"}},
		{"empty selector", func(s s) { s.Spec.Selector = &metav1.LabelSelector{} }, []string{"spec.selector: Invalid value: {}: empty selector is invalid for statefulset"}},
		{"service", func(s s) { s.Spec.ServiceName = "a.b" }, []string{`spec.serviceName: Invalid value: "a.b": must not contain dots`}},
		{"mounted claim", func(s s) {
			s.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{claim("data")}
			s.Spec.Template.Spec.Volumes = []corev1.Volume{{Name: "data"}}
			s.Spec.Template.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
		}, nil},
		{"names that pods do not keep", func(s s) { s.Spec.Template.Spec.Hostname, s.Spec.Template.Spec.Subdomain = "a.b", "c.d" }, nil},
		{"claims of one name", func(s s) {
			s.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{claim("data"), claim("data")}
			s.Spec.Template.Spec.Volumes = []corev1.Volume{{}}
		}, []string{"spec.template.spec.volumes[1].name: Required value"}},
		{"malformed selector", func(s s) {
			s.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Like"}}
			s.Spec.Template.Spec.Containers = nil
		}, []string{
			`spec.selector.matchExpressions[0].operator: Invalid value: "Like": not a valid selector operator`,
			`spec.selector: Invalid value: {"matchLabels":{"app":"web"},"matchExpressions":[{"key":"app","operator":"Like"}]}`,
		}},
		{"mounted nothing", func(s s) {
			s.Spec.Template.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
		}, []string{`spec.template.spec.containers[0].volumeMounts[0].name: Not found: "data"`}},
		{"claim", func(s s) {
			bad := claim("data")
			bad.Spec.AccessModes = nil
			s.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{claim("other"), bad}
		}, []string{"spec.volumeClaimTemplates[1].spec.accessModes: Required value: at least 1 access mode is required"}},
	}...))
	update := func(change func(s)) field.ErrorList {
		old := set()
		old.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{claim("data")}
		defaultStatefulSet(old)
		changed := old.DeepCopy()
		change(changed)
		defaultStatefulSet(changed)
		return validateStatefulSetUpdate(changed, old)
	}
	errortest.Exactly(t, update(func(s s) {
		s.Spec.Replicas, s.Spec.Template.Spec.Containers[0].Image, s.Spec.MinReadySeconds = new(int32(5)), "c", 3
		s.Spec.Ordinals, s.Spec.RevisionHistoryLimit = &appsv1.StatefulSetOrdinals{Start: 1}, new(int32(2))
		s.Spec.UpdateStrategy = appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType}
		s.Spec.PersistentVolumeClaimRetentionPolicy.WhenScaled = "Delete"
	}))
	for field, change := range map[string]func(s){
		"spec.serviceName":         func(s s) { s.Spec.ServiceName = "other" },
		"spec.podManagementPolicy": func(s s) { s.Spec.PodManagementPolicy = appsv1.ParallelPodManagement },
		"spec.volumeClaimTemplates": func(s s) {
			s.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests["storage"] = resource.MustParse("2Gi")
		},
		"spec.selector": func(s s) {
			s.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Exists"}}
		},
	} {
		t.Run(field, func(t *testing.T) {
			if errs := update(change); len(errs) != 1 || errs[0].Field != field || errs[0].Detail != "field is immutable" {
				t.Errorf("got %v", errs)
			}
		})
	}
	// A set that was valid only before a check existed stays updatable.
	outdated := set()
	outdated.Spec.Template.Spec.Containers[0].Image = ""
	defaultStatefulSet(outdated)
	annotated := outdated.DeepCopy()
	annotated.Spec.Template.Annotations = map[string]string{"a b": "c"}
	errortest.Exactly(t, validateStatefulSetUpdate(outdated.DeepCopy(), outdated))
	errortest.Contain(t, validateStatefulSetUpdate(annotated, outdated), "spec.template.annotations: Invalid value")
	o := set()
	o.Status.CollisionCount = new(int32(1))
	n := set()
	n.Status = appsv1.StatefulSetStatus{Replicas: 1, ReadyReplicas: 0, AvailableReplicas: 1, CurrentReplicas: 2, UpdatedReplicas: -1, ObservedGeneration: -1, CollisionCount: new(int32(0))}
	errortest.Exactly(t, validateStatefulSetStatus(n, o), "status.currentReplicas: Invalid value: 2: cannot be greater than status.replicas",
		"status.updatedReplicas: Invalid value: -1: must be greater than or equal to 0", "status.availableReplicas: Invalid value: 1: cannot be greater than status.readyReplicas",
		"status.observedGeneration: Invalid value: -1: must be greater than or equal to 0", "status.collisionCount: Invalid value: 0: cannot be decremented")
}
