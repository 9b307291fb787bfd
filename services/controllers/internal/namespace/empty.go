package namespace

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/customkinds"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/controllers/internal/aggregatedkinds"
)

const (
	// finalizerWait is the delay before content that waits for its finalizers is checked again
	// (Kubernetes, finalizerEstimateSeconds).
	finalizerWait = 15 * time.Second
	// page is the number of objects per list call.
	page = 500
)

// remains is what is left of a namespace's content after its deletion was requested.
type remains struct {
	objects    map[string]int // by resource, "deployments.apps"
	finalizers map[string]int // objects that wait for one, by finalizer
	faults     []error
	undefined  error         // why it is not known which resources there are
	wait       time.Duration // after which to check again
}

func (r remains) any() bool { return len(r.objects) > 0 }

func (r remains) err() error { return errors.Join(errors.Join(r.faults...), r.undefined) }

// empty deletes all content of a namespace. Pods go first, with their grace period, so that what
// they use does not disappear while they shut down (KEP-5080); everything else follows, also what other
// API servers hold. It is empty only if the apiserver, asked at that moment, has defined no other kinds, and if
// each of the other servers has said which kinds it has.
func (r *reconciler) empty(ctx context.Context, namespace string) remains {
	left := remains{objects: map[string]int{}, finalizers: map[string]int{}}
	table := r.client.Table()
	pods := scheme.For[*corev1.Pod](table)
	r.emptyKind(ctx, namespace, pods, &left)
	if left.any() || len(left.faults) > 0 {
		return left
	}
	emptied := map[*scheme.Kind]bool{pods: true}
	r.emptyKinds(ctx, namespace, emptied, &left)
	r.emptyAggregated(ctx, namespace, &left)
	if left.any() || len(left.faults) > 0 {
		return left
	}
	// The namespace is empty only if it holds nothing of a kind that was defined a moment ago either.
	if err := r.definitions.Refresh(ctx); err != nil {
		left.undefined = errors.Join(left.undefined, err)
		return left
	}
	r.emptyKinds(ctx, namespace, emptied, &left)
	return left
}

// emptyKinds deletes the content of all kinds but those already emptied, to which it adds the others.
func (r *reconciler) emptyKinds(ctx context.Context, namespace string, emptied map[*scheme.Kind]bool, left *remains) {
	for _, kind := range customkinds.Readable(r.client.Table().Kinds()) {
		if kind.Namespaced && !emptied[kind] {
			emptied[kind] = true
			r.emptyKind(ctx, namespace, kind, left)
		}
	}
}

// emptyAggregated deletes what other API servers hold in a namespace.
func (r *reconciler) emptyAggregated(ctx context.Context, namespace string, left *remains) {
	resources, err := r.aggregated.Discover(ctx)
	left.undefined = err
	for _, resource := range resources {
		switch kind := resource.Kind; {
		case !kind.Namespaced:
		case resource.Listed:
			r.emptyKind(ctx, namespace, kind, left)
		case !kind.DeletedOneByOne:
			// What cannot be listed does not keep the namespace either (Kubernetes, deleteAllContentForGroupVersionResource).
			r.deleteAll(ctx, namespace, kind, left)
		}
	}
}

// deleteAll deletes the objects of a kind in a namespace. It reports whether that went well.
func (r *reconciler) deleteAll(ctx context.Context, namespace string, kind *scheme.Kind, left *remains) bool {
	background := metav1.DeletePropagationBackground
	opts := &metav1.DeleteOptions{PropagationPolicy: &background}
	var err error
	if kind.DeletedOneByOne {
		err = r.deleteEach(ctx, namespace, kind, opts)
	} else {
		err = r.client.Do(ctx, client.Call{
			Verb: "deletecollection", Kind: kind, Namespace: namespace, Options: &metav1.ListOptions{}, Body: opts,
		}, nil)
	}
	if err != nil {
		left.faults = append(left.faults, fmt.Errorf("deleting %s: %w", kind.GroupResource(), err))
	}
	return err == nil
}

// deleteEach deletes the objects of a kind in a namespace, one after the other.
func (r *reconciler) deleteEach(ctx context.Context, namespace string, kind *scheme.Kind, opts *metav1.DeleteOptions) error {
	var faults []error
	err := r.each(ctx, namespace, kind, func(obj scheme.Object) {
		err := r.client.Do(ctx, client.Call{Verb: "delete", Kind: kind, Namespace: namespace, Name: obj.GetName(), Options: opts}, nil)
		if err != nil && !apierrors.IsNotFound(err) {
			faults = append(faults, err)
		}
	})
	return errors.Join(append(faults, err)...)
}

func (r *reconciler) emptyKind(ctx context.Context, namespace string, kind *scheme.Kind, left *remains) {
	resource := kind.Resource + "." + kind.Group
	if !r.deleteAll(ctx, namespace, kind, left) {
		return
	}
	unheld := 0
	err := r.each(ctx, namespace, kind, func(obj scheme.Object) {
		left.objects[resource]++
		for _, finalizer := range obj.GetFinalizers() {
			left.finalizers[finalizer]++
			left.wait = max(left.wait, finalizerWait)
		}
		switch grace := graceLeft(obj); {
		case grace > 0:
			left.wait = max(left.wait, grace)
		case len(obj.GetFinalizers()) == 0 && obj.GetDeletionTimestamp() == nil:
			unheld++
		}
	})
	if err != nil {
		left.faults = append(left.faults, fmt.Errorf("listing %s: %w", resource, err))
		return
	}
	if unheld > 0 {
		left.faults = append(left.faults, fmt.Errorf("unexpected items still remain in namespace: %s for gvr: %v", namespace, kind.GroupVersionResource()))
	}
}

// each calls f for every object of a kind in a namespace, as etcd has it now.
func (r *reconciler) each(ctx context.Context, namespace string, kind *scheme.Kind, f func(scheme.Object)) error {
	opts := metav1.ListOptions{Limit: page}
	for {
		list := kind.NewList()
		err := r.client.Do(ctx, client.Call{Verb: "list", Kind: kind, Namespace: namespace, Options: &opts}, list)
		if err != nil {
			return err
		}
		err = meta.EachListItem(list, func(item runtime.Object) error {
			obj, ok := item.(scheme.Object)
			if !ok {
				return fmt.Errorf("an item of a list of %s is a %T", kind.Resource, item)
			}
			f(obj)
			return nil
		})
		if err != nil {
			return err
		}
		m, err := meta.ListAccessor(list)
		if err != nil {
			return fmt.Errorf("reading a list of %s: %w", kind.Resource, err)
		}
		if opts.Continue = m.GetContinue(); opts.Continue == "" {
			return nil
		}
	}
}

// graceLeft returns how long an object that is being deleted gracefully may still take.
func graceLeft(obj scheme.Object) time.Duration {
	grace, since := obj.GetDeletionGracePeriodSeconds(), obj.GetDeletionTimestamp()
	if grace == nil || *grace <= 0 || since == nil {
		return 0
	}
	return max(time.Until(since.Time), time.Second)
}

// setConditions describes in a namespace's status what is left of it, in Kubernetes' words.
func setConditions(status *corev1.NamespaceStatus, r remains, now metav1.Time) {
	set := func(kind corev1.NamespaceConditionType, failed bool, okReason, okMessage, badReason, badMessage string) {
		condition := corev1.NamespaceCondition{
			Type: kind, Status: corev1.ConditionFalse, Reason: okReason, Message: okMessage, LastTransitionTime: now,
		}
		if failed {
			condition.Status, condition.Reason, condition.Message = corev1.ConditionTrue, badReason, badMessage
		}
		for i := range status.Conditions {
			current := &status.Conditions[i]
			if current.Type != kind {
				continue
			}
			if current.Status == condition.Status {
				condition.LastTransitionTime = current.LastTransitionTime
			}
			*current = condition
			return
		}
		status.Conditions = append(status.Conditions, condition)
	}
	undefined := ""
	if r.undefined != nil {
		undefined = r.undefined.Error()
	}
	if incomplete := (*aggregatedkinds.Incomplete)(nil); errors.As(r.undefined, &incomplete) {
		undefined = fmt.Sprintf("Discovery failed for some groups, %d failing: %v", len(incomplete.Failed), r.undefined)
	}
	set(corev1.NamespaceDeletionDiscoveryFailure, r.undefined != nil,
		"ResourcesDiscovered", "All resources successfully discovered", "DiscoveryFailed", undefined)
	set(corev1.NamespaceDeletionGVParsingFailure, false, "ParsedGroupVersions", "All legacy kube types successfully parsed", "", "")
	failure := ""
	if len(r.faults) > 0 {
		failure = fmt.Sprintf("Failed to delete all resource types, %d remaining: %v", len(r.faults), oneLine(r.faults))
	}
	set(corev1.NamespaceDeletionContentFailure, len(r.faults) > 0,
		"ContentDeleted", "All content successfully deleted, may be waiting on finalization", "ContentDeletionFailed", failure)
	set(corev1.NamespaceContentRemaining, len(r.objects) > 0, "ContentRemoved", "All content successfully removed",
		"SomeResourcesRemain", "Some resources are remaining: "+counted(r.objects, "%s has %d resource instances"))
	set(corev1.NamespaceFinalizersRemaining, len(r.finalizers) > 0, "ContentHasNoFinalizers", "All content-preserving finalizers finished",
		"SomeFinalizersRemain", "Some content in the namespace has finalizers remaining: "+counted(r.finalizers, "%s in %d resource instances"))
}

func counted(counts map[string]int, format string) string {
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf(format, key, counts[key]))
	}
	return strings.Join(parts, ", ")
}

func oneLine(faults []error) string {
	texts := make([]string, len(faults))
	for i, err := range faults {
		texts[i] = err.Error()
	}
	slices.Sort(texts)
	return strings.Join(texts, ", ")
}
