package apps

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/defaults"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/errortest"
)

func meta() metav1.ObjectMeta { return metav1.ObjectMeta{Name: "x", Namespace: "default"} }

func web() map[string]string { return map[string]string{"app": "web"} }

func selector() *metav1.LabelSelector { return &metav1.LabelSelector{MatchLabels: web()} }

func pods() corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: web()},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "b"}}},
	}
}

// rule is a change of a valid object and the errors, in order, that it must cause.
type rule[T any] struct {
	name   string
	change func(T)
	want   []string
}

func check[T any](t *testing.T, fresh func() T, fill func(T), validate func(T) field.ErrorList, rules []rule[T]) {
	t.Helper()
	for _, tc := range rules {
		t.Run(tc.name, func(t *testing.T) {
			obj := fresh()
			tc.change(obj)
			fill(obj)
			errortest.Exactly(t, validate(obj), tc.want...)
		})
	}
}

// templates are the rules for templates of pods that run for ever.
func templates[T any](of func(T) *corev1.PodTemplateSpec, kind string) []rule[T] {
	return []rule[T]{
		{"plain", func(T) {}, nil},
		{"restart policy", func(o T) { of(o).Spec.RestartPolicy = corev1.RestartPolicyNever }, []string{`spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"`}},
		{"deadline", func(o T) { of(o).Spec.ActiveDeadlineSeconds = new(int64(5)) }, []string{"spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in " + kind + " is not Supported"}},
		{"container", func(o T) { of(o).Spec.Containers[0].Image = "" }, []string{"spec.template.spec.containers[0].image: Required value"}},
		{"other labels", func(o T) { of(o).Labels = map[string]string{"a": "b"} }, []string{"spec.template.metadata.labels: Invalid value: {\"a\":\"b\"}: `selector` does not match template `labels`"}},
	}
}

func TestDeployment(t *testing.T) {
	deployment := func() *appsv1.Deployment {
		return &appsv1.Deployment{ObjectMeta: meta(), Spec: appsv1.DeploymentSpec{Selector: selector(), Template: pods()}}
	}
	type d = *appsv1.Deployment
	check(t, deployment, defaults.Deployment, Deployment, append(templates(func(d d) *corev1.PodTemplateSpec { return &d.Spec.Template }, "ReplicaSet"), []rule[d]{
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
	defaults.Deployment(old)
	defaults.Deployment(changed)
	changed.Spec.Selector.MatchLabels, changed.Spec.Template.Labels = map[string]string{"a": "b"}, map[string]string{"a": "b"}
	errortest.Exactly(t, DeploymentUpdate(changed, old), `spec.selector: Invalid value: {"matchLabels":{"a":"b"}}: field is immutable`)
	old.Status.CollisionCount = new(int32(2))
	changed.Status = appsv1.DeploymentStatus{ObservedGeneration: -1, Replicas: 1, UpdatedReplicas: 2, ReadyReplicas: 2, AvailableReplicas: 3, UnavailableReplicas: -1, TerminatingReplicas: new(int32(-1))}
	errortest.Exactly(t, DeploymentStatus(changed, old),
		"status.observedGeneration: Invalid value: -1: must be greater than or equal to 0", "status.updatedReplicas: Invalid value: 2: cannot be greater than status.replicas",
		"status.readyReplicas: Invalid value: 2: cannot be greater than status.replicas", "status.availableReplicas: Invalid value: 3: cannot be greater than status.replicas",
		"status.availableReplicas: Invalid value: 3: cannot be greater than readyReplicas", "status.terminatingReplicas: Invalid value: -1: must be greater than or equal to 0",
		"status.unavailableReplicas: Invalid value: -1: must be greater than or equal to 0", "status.collisionCount: Invalid value: 0: cannot be decremented")
}

func TestReplicaSet(t *testing.T) {
	set := func() *appsv1.ReplicaSet {
		return &appsv1.ReplicaSet{ObjectMeta: meta(), Spec: appsv1.ReplicaSetSpec{Selector: selector(), Template: pods()}}
	}
	type rs = *appsv1.ReplicaSet
	check(t, set, defaults.ReplicaSet, ReplicaSet, append(templates(func(r rs) *corev1.PodTemplateSpec { return &r.Spec.Template }, "ReplicaSet"), []rule[rs]{
		{"negative numbers", func(r rs) { r.Spec.Replicas, r.Spec.MinReadySeconds = new(int32(-1)), -2 }, []string{
			"spec.replicas: Invalid value: -1: must be greater than or equal to 0", "spec.minReadySeconds: Invalid value: -2: must be greater than or equal to 0",
		}},
		{"empty selector", func(r rs) { r.Spec.Selector = &metav1.LabelSelector{} }, []string{"spec.selector: Invalid value: {}: empty selector is invalid for deployment"}},
	}...))
	changed := set()
	defaults.ReplicaSet(changed)
	changed.Spec.Selector.MatchLabels = nil
	changed.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Exists"}}
	errortest.Exactly(t, ReplicaSetUpdate(changed, set()), `spec.selector: Invalid value: {"matchExpressions":[{"key":"app","operator":"Exists"}]}: field is immutable`)
	changed.Status = appsv1.ReplicaSetStatus{Replicas: 2, FullyLabeledReplicas: 3, ReadyReplicas: 1, AvailableReplicas: 2}
	errortest.Exactly(t, ReplicaSetStatus(changed, changed), "status.fullyLabeledReplicas: Invalid value: 3: cannot be greater than status.replicas",
		"status.availableReplicas: Invalid value: 2: cannot be greater than readyReplicas")
}

func TestReplicationController(t *testing.T) {
	controller := func() *corev1.ReplicationController {
		return &corev1.ReplicationController{ObjectMeta: meta(), Spec: corev1.ReplicationControllerSpec{Selector: web(), Template: new(pods())}}
	}
	type rc = *corev1.ReplicationController
	check(t, controller, defaults.ReplicationController, ReplicationController, append(templates(func(r rc) *corev1.PodTemplateSpec { return r.Spec.Template }, "ReplicationController"), []rule[rc]{
		{"negative numbers", func(r rc) { r.Spec.Replicas, r.Spec.MinReadySeconds = new(int32(-1)), -2 }, []string{
			"spec.minReadySeconds: Invalid value: -2: must be greater than or equal to 0", "spec.replicas: Invalid value: -1: must be greater than or equal to 0",
		}},
		{"nothing", func(r rc) { r.Spec.Template, r.Spec.Selector = nil, nil }, []string{"spec.selector: Required value", "spec.template: Required value"}},
		{"selector from the labels", func(r rc) { r.Spec.Selector = nil }, nil},
	}...))
	r := controller()
	r.Status = corev1.ReplicationControllerStatus{Replicas: -1}
	errortest.Exactly(t, ReplicationControllerStatus(r, r), "status.replicas: Invalid value: -1: must be greater than or equal to 0",
		"status.fullyLabeledReplicas: Invalid value: 0: cannot be greater than status.replicas", "status.readyReplicas: Invalid value: 0: cannot be greater than status.replicas",
		"status.availableReplicas: Invalid value: 0: cannot be greater than status.replicas")
	defaults.ReplicationController(r)
	r.Spec.Replicas = new(int32(-5))
	errortest.Exactly(t, ReplicationControllerUpdate(r, controller()), "spec.replicas: Invalid value: -5: must be greater than or equal to 0")
}

func TestPodTemplate(t *testing.T) {
	p := &corev1.PodTemplate{ObjectMeta: meta(), Template: pods()}
	defaults.PodTemplateObject(p)
	errortest.Exactly(t, PodTemplate(p))
	p.Name, p.Template.Spec.Containers[0].Name = "", "A"
	errortest.Contain(t, PodTemplateUpdate(p, p), "metadata.name: Required value: name or generateName is required", `template.spec.containers[0].name: Invalid value: "A"`)
}

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
	check(t, set, defaults.StatefulSet, StatefulSet, append(templates(func(s s) *corev1.PodTemplateSpec { return &s.Spec.Template }, "StatefulSet"), []rule[s]{
		{"name", func(s s) { s.Name = "a.b" }, []string{`metadata.name: Invalid value: "a.b": must not contain dots`}},
		{"policy", func(s s) { s.Spec.PodManagementPolicy = "Odd" }, []string{`spec.podManagementPolicy: Invalid value: "Odd": must be 'OrderedReady' or 'Parallel'`}},
		{"strategy", func(s s) { s.Spec.UpdateStrategy.Type = "Odd" }, []string{`spec.updateStrategy: Invalid value: {"type":"Odd"}: must be 'RollingUpdate' or 'OnDelete'`}},
		{"rolling on delete", func(s s) {
			s.Spec.UpdateStrategy = appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType, RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{}}
		}, []string{"spec.updateStrategy.rollingUpdate: Invalid value: {}: only allowed for updateStrategy 'RollingUpdate'"}},
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
		defaults.StatefulSet(old)
		changed := old.DeepCopy()
		change(changed)
		defaults.StatefulSet(changed)
		return StatefulSetUpdate(changed, old)
	}
	errortest.Exactly(t, update(func(s s) {
		s.Spec.Replicas, s.Spec.Template.Spec.Containers[0].Image, s.Spec.MinReadySeconds = new(int32(5)), "c", 3
		s.Spec.Ordinals, s.Spec.RevisionHistoryLimit = &appsv1.StatefulSetOrdinals{Start: 1}, new(int32(2))
		s.Spec.UpdateStrategy = appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType}
		s.Spec.PersistentVolumeClaimRetentionPolicy.WhenScaled = "Delete"
	}))
	for name, change := range map[string]func(s){
		"service": func(s s) { s.Spec.ServiceName = "other" }, "policy": func(s s) { s.Spec.PodManagementPolicy = appsv1.ParallelPodManagement },
		"claims": func(s s) {
			s.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests["storage"] = resource.MustParse("2Gi")
		},
		"selector": func(s s) {
			s.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Exists"}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			errortest.Exactly(t, update(change), "spec: Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden")
		})
	}
	o := set()
	o.Status.CollisionCount = new(int32(1))
	n := set()
	n.Status = appsv1.StatefulSetStatus{Replicas: 1, ReadyReplicas: 0, AvailableReplicas: 1, CurrentReplicas: 2, UpdatedReplicas: -1, ObservedGeneration: -1, CollisionCount: new(int32(0))}
	errortest.Exactly(t, StatefulSetStatus(n, o), "status.currentReplicas: Invalid value: 2: cannot be greater than status.replicas",
		"status.updatedReplicas: Invalid value: -1: must be greater than or equal to 0", "status.availableReplicas: Invalid value: 1: cannot be greater than status.readyReplicas",
		"status.observedGeneration: Invalid value: -1: must be greater than or equal to 0", "status.collisionCount: Invalid value: 0: cannot be decremented")
}

func TestDaemonSet(t *testing.T) {
	set := func() *appsv1.DaemonSet {
		return &appsv1.DaemonSet{ObjectMeta: meta(), Spec: appsv1.DaemonSetSpec{Selector: selector(), Template: pods()}}
	}
	type d = *appsv1.DaemonSet
	rolling := func(unavailable, surge intstr.IntOrString) func(d) {
		return func(d d) {
			d.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateDaemonSet{MaxUnavailable: &unavailable, MaxSurge: &surge}
		}
	}
	const at = "spec.updateStrategy.rollingUpdate."
	check(t, set, defaults.DaemonSet, DaemonSet, append(templates(func(d d) *corev1.PodTemplateSpec { return &d.Spec.Template }, "DaemonSet"), []rule[d]{
		{"no selector", func(d d) { d.Spec.Selector = nil }, []string{"spec.template.metadata.labels: Invalid value: {\"app\":\"web\"}: `selector` does not match template `labels`"}},
		{"empty selector", func(d d) { d.Spec.Selector = &metav1.LabelSelector{} }, []string{"spec.selector: Invalid value: {}: empty selector is invalid for daemonset"}},
		{"negative numbers", func(d d) { d.Spec.MinReadySeconds, d.Spec.RevisionHistoryLimit = -1, new(int32(-2)) }, []string{
			"spec.minReadySeconds: Invalid value: -1: must be greater than or equal to 0", "spec.revisionHistoryLimit: Invalid value: -2: must be greater than or equal to 0",
		}},
		{"strategy", func(d d) { d.Spec.UpdateStrategy.Type = "Odd" }, []string{`spec.updateStrategy: Unsupported value: {"type":"Odd"}: supported values: "RollingUpdate", "OnDelete"`}},
		{"both", rolling(intstr.FromInt32(1), intstr.FromString("10%")), []string{at + `maxSurge: Invalid value: "10%": may not be set when maxUnavailable is non-zero`}},
		{"neither", rolling(intstr.FromString("0%"), intstr.FromInt32(0)), []string{at + "maxUnavailable: Required value: cannot be 0 when maxSurge is 0"}},
		{"surge", rolling(intstr.FromInt32(0), intstr.FromInt32(1)), nil},
		{"too much", rolling(intstr.FromString("101%"), intstr.FromInt32(0)), []string{at + `maxUnavailable: Invalid value: "101%": must not be greater than 100%`}},
		{"too much surge", rolling(intstr.FromInt32(0), intstr.FromString("101%")), []string{at + `maxSurge: Invalid value: "101%": must not be greater than 100%`}},
		{"on delete", func(d d) { d.Spec.UpdateStrategy.Type = appsv1.OnDeleteDaemonSetStrategyType }, nil},
	}...))
	changed := set()
	defaults.DaemonSet(changed)
	changed.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Exists"}}
	errortest.Exactly(t, DaemonSetUpdate(changed, set()), `spec.selector: Invalid value: {"matchLabels":{"app":"web"},"matchExpressions":[{"key":"app","operator":"Exists"}]}: field is immutable`)
	old := set()
	old.Status.CollisionCount = new(int32(1))
	changed.Status = appsv1.DaemonSetStatus{
		CurrentNumberScheduled: -1, NumberMisscheduled: -1, DesiredNumberScheduled: -1, NumberReady: -1, UpdatedNumberScheduled: -1,
		NumberAvailable: -1, NumberUnavailable: -1, ObservedGeneration: -1, CollisionCount: new(int32(-1)),
	}
	var want []string
	for _, name := range []string{
		"observedGeneration", "currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady", "updatedNumberScheduled",
		"numberAvailable", "numberUnavailable", "collisionCount",
	} {
		want = append(want, "status."+name+": Invalid value: -1: must be greater than or equal to 0")
	}
	errortest.Exactly(t, DaemonSetStatus(changed, old), append(want, "status.collisionCount: Invalid value: -1: cannot be decremented")...)
}

func TestControllerRevision(t *testing.T) {
	r := &appsv1.ControllerRevision{ObjectMeta: meta(), Revision: -1}
	errortest.Exactly(t, ControllerRevision(r), "data: Required value: data is mandatory", "revision: Invalid value: -1: must be greater than or equal to 0")
	r = &appsv1.ControllerRevision{ObjectMeta: meta(), Data: runtime.RawExtension{Raw: []byte("{}")}}
	changed := r.DeepCopy()
	changed.Revision = 3
	errortest.Exactly(t, ControllerRevisionUpdate(changed, r))
	changed.Data.Raw = []byte(`{"a":1}`)
	errortest.Exactly(t, ControllerRevisionUpdate(changed, r), `data: Invalid value: "7 bytes": field is immutable`)
}
