package deployment

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/controllers/internal/podtemplate"
)

// Annotations in which Deployments and their ReplicaSets record revisions and sizes (Kubernetes,
// pkg/controller/deployment/util). kubectl rollout reads the first.
const (
	revisionAnnotation        = "deployment.kubernetes.io/revision"
	revisionHistoryAnnotation = "deployment.kubernetes.io/revision-history"
	desiredReplicasAnnotation = "deployment.kubernetes.io/desired-replicas"
	maxReplicasAnnotation     = "deployment.kubernetes.io/max-replicas"
	rollbackToAnnotation      = "deprecated.deployment.rollback.to"

	// maxHistoryLength bounds the annotation of past revisions, in characters.
	maxHistoryLength = 2000
)

// hashLabel distinguishes the pods of one template from those of another.
const hashLabel = appsv1.DefaultDeploymentUniqueLabelKey

// sameTemplate compares pod templates, ignoring the label that holds their hash.
func sameTemplate(a, b *corev1.PodTemplateSpec) bool {
	a, b = a.DeepCopy(), b.DeepCopy()
	delete(a.Labels, hashLabel)
	delete(b.Labels, hashLabel)
	return equality.Semantic.DeepEqual(a, b)
}

// split separates the ReplicaSet of a Deployment's present template from all others. If several
// match, newest is the oldest of them; if none does, it is nil.
func split(d *appsv1.Deployment, sets []*appsv1.ReplicaSet) (newest *appsv1.ReplicaSet, old []*appsv1.ReplicaSet) {
	sorted := slices.SortedFunc(slices.Values(sets), byCreation)
	for _, rs := range sorted {
		if newest == nil && sameTemplate(&rs.Spec.Template, &d.Spec.Template) {
			newest = rs
			continue
		}
		old = append(old, rs)
	}
	return newest, old
}

// revisionOf returns the revision that an object carries; 0 if there is none or it is unreadable.
func revisionOf(obj metav1.Object) int64 {
	revision, err := strconv.ParseInt(obj.GetAnnotations()[revisionAnnotation], 10, 64)
	if err != nil {
		return 0
	}
	return revision
}

func maxRevision(sets []*appsv1.ReplicaSet) int64 {
	var highest int64
	for _, rs := range sets {
		highest = max(highest, revisionOf(rs))
	}
	return highest
}

func intAnnotation(obj metav1.Object, key string) (value int32, known bool) {
	text, found := obj.GetAnnotations()[key]
	if !found {
		return 0, false
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return 0, false
	}
	return int32(n), true
}

// setSizes records in a ReplicaSet's annotations how large its Deployment is and may become, and
// reports whether they changed.
func setSizes(rs *appsv1.ReplicaSet, desired, most int32) bool {
	changedDesired := setAnnotation(rs, desiredReplicasAnnotation, strconv.Itoa(int(desired)))
	changedMost := setAnnotation(rs, maxReplicasAnnotation, strconv.Itoa(int(most)))
	return changedDesired || changedMost
}

func setAnnotation(obj metav1.Object, key, value string) bool {
	if current, found := obj.GetAnnotations()[key]; found && current == value {
		return false
	}
	annotations := maps.Clone(obj.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[key] = value
	obj.SetAnnotations(annotations)
	return true
}

// own reports whether an annotation is one that a ReplicaSet does not inherit from its Deployment.
func own(key string) bool {
	switch key {
	case corev1.LastAppliedConfigAnnotation, revisionAnnotation, revisionHistoryAnnotation,
		desiredReplicasAnnotation, maxReplicasAnnotation, rollbackToAnnotation:
		return true
	}
	return false
}

// annotate brings the newest ReplicaSet's annotations up to date, and reports whether any changed:
// the Deployment's, the revision if it rises, and for a new ReplicaSet the sizes. The previous
// revision moves to the history.
func annotate(d *appsv1.Deployment, rs *appsv1.ReplicaSet, revision int64, exists bool) bool {
	changed := false
	for key, value := range d.Annotations {
		if !own(key) && setAnnotation(rs, key, value) {
			changed = true
		}
	}
	before, had := rs.Annotations[revisionAnnotation]
	beforeNumber, err := strconv.ParseInt(before, 10, 64)
	if err != nil && before != "" {
		return changed // A user wrote a revision that is not a number; Kubernetes leaves it alone too.
	}
	if beforeNumber < revision {
		setAnnotation(rs, revisionAnnotation, strconv.FormatInt(revision, 10))
		changed = true
		if had {
			setAnnotation(rs, revisionHistoryAnnotation, addHistory(rs.Annotations[revisionHistoryAnnotation], before))
		}
	}
	if !exists && setSizes(rs, replicas(d), replicas(d)+boundsOf(d).surge) {
		changed = true
	}
	return changed
}

// addHistory appends a revision to a comma-separated history, dropping the oldest ones while it is
// too long.
func addHistory(history, revision string) string {
	if history == "" {
		return revision
	}
	for len(history)+1+len(revision) > maxHistoryLength {
		_, rest, more := strings.Cut(history, ",")
		if !more {
			return revision
		}
		history = rest
	}
	return history + "," + revision
}

// newReplicaSet builds the ReplicaSet of a Deployment's present template, with 0 replicas.
func newReplicaSet(d *appsv1.Deployment, controller metav1.OwnerReference) *appsv1.ReplicaSet {
	template := d.Spec.Template.DeepCopy()
	hash := podtemplate.Hash(template, d.Status.CollisionCount)
	if template.Labels == nil {
		template.Labels = map[string]string{}
	}
	template.Labels[hashLabel] = hash
	selector := d.Spec.Selector.DeepCopy()
	if selector.MatchLabels == nil {
		selector.MatchLabels = map[string]string{}
	}
	selector.MatchLabels[hashLabel] = hash
	return &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: d.Namespace, Name: setName(d.Name, hash),
			Labels: maps.Clone(template.Labels), OwnerReferences: []metav1.OwnerReference{controller},
		},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: new(int32), MinReadySeconds: d.Spec.MinReadySeconds, Selector: selector, Template: *template,
		},
	}
}

// setName joins a Deployment's name and a hash, truncating the Deployment's name where the result
// would be too long.
func setName(deployment, hash string) string {
	const longest = 253 // k8s.io/apimachinery/pkg/util/validation.DNS1123SubdomainMaxLength
	if most := longest - 1 - len(hash); len(deployment) > most {
		deployment = strings.TrimRight(deployment[:most], "-.")
	}
	return deployment + "-" + hash
}

// historyLimit returns how many old ReplicaSets to keep, and whether there is a limit.
func historyLimit(d *appsv1.Deployment) (int, bool) {
	limit := d.Spec.RevisionHistoryLimit
	if limit == nil || *limit == math.MaxInt32 {
		return 0, false
	}
	return int(*limit), true
}
