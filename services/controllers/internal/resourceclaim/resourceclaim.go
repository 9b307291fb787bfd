// Package resourceclaim creates the ResourceClaims of pods from templates, and takes care of what pods leave
// behind: reservations of pods that have ended, the allocations that nobody uses any more, and the claims
// that were made for such pods (kubernetes, pkg/controller/resourceclaim). Pod groups have no claims here:
// the gates GenericWorkload and DRAWorkloadResourceClaims are off by default.
package resourceclaim

import (
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	dra "k8s.io/dynamic-resource-allocation/resourceclaim"

	"github.com/garboard/garboard/libs/client/events"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/services/controllers/internal/controller"
	"github.com/garboard/garboard/services/controllers/internal/controllerref"
	"github.com/garboard/garboard/services/controllers/internal/podstate"
)

const (
	name         = "resourceclaim-controller"
	queue        = "resource_claim"
	releaseQueue = "resource_claim_release"
	component    = "resource_claim"
	workers      = 50

	// claimIndex and templateIndex find pods by the keys of their claims and of their templates,
	// ownerIndex claims by the UID of the object that controls them.
	claimIndex    = "resource claims of pods"
	templateIndex = "resource claim templates of pods"
	ownerIndex    = "owners of resource claims"
)

// provider reconciles pods: it creates and reserves their claims.
type provider struct {
	pods      *controller.Objects[*corev1.Pod]
	claims    *controller.Objects[*resourcev1.ResourceClaim]
	templates informer.SharedInformer[*resourcev1.ResourceClaimTemplate]
	events    *events.Recorder
	metrics   metrics
}

// New declares the controller. Its first queue holds pods, the one beside it claims.
func New(d controller.Deps) *controller.Spec {
	p := &provider{
		pods: controller.For[*corev1.Pod](d), claims: controller.For[*resourcev1.ResourceClaim](d),
		templates: informer.For[*resourcev1.ResourceClaimTemplate](d.Informers), events: d.Events(component),
	}
	p.metrics = newMetrics(d.Registerer, p.claims)
	p.pods.Handle = p.podChanged
	return &controller.Spec{
		Name: name, Queue: queue, Resource: "pods", Workers: workers, Events: p.events, For: p.pods, Reconcile: p.reconcile,
		Watches: []controller.Watch{
			controller.Indexed(p.pods.SharedInformer, claimIndex, claimKeys),
			controller.Indexed(p.pods.SharedInformer, templateIndex, templateKeys),
			controller.Indexed(p.claims.SharedInformer, ownerIndex, controllerref.Index[*resourcev1.ResourceClaim]()),
			controller.On(p.claims.SharedInformer, p.claimChanged), controller.On(p.templates, p.templateChanged),
		},
		Beside: []*controller.Spec{releases(d)},
	}
}

// claimKeys returns the keys of the claims that a pod names or that were made for it.
func claimKeys(pod *corev1.Pod) ([]string, error) {
	var keys []string
	for i := range pod.Spec.ResourceClaims {
		if claim, _, err := dra.Name(pod, &pod.Spec.ResourceClaims[i]); err == nil && claim != nil {
			keys = append(keys, informer.KeyOf(pod.Namespace, *claim))
		}
	}
	return keys, nil
}

// templateKeys returns the keys of the templates that a pod names.
func templateKeys(pod *corev1.Pod) ([]string, error) {
	var keys []string
	for i := range pod.Spec.ResourceClaims {
		if template := pod.Spec.ResourceClaims[i].ResourceClaimTemplateName; template != nil {
			keys = append(keys, informer.KeyOf(pod.Namespace, *template))
		}
	}
	return keys, nil
}

func (p *provider) podChanged(q controller.Queue, _, now *corev1.Pod) {
	if now != nil && p.needsWork(now) {
		q.Add(now)
	}
}

// claimChanged asks for reconciles of the pods that use a claim.
func (p *provider) claimChanged(q controller.Queue, old, now *resourcev1.ResourceClaim) {
	claim := now
	if claim == nil {
		claim = old
	}
	p.add(q, claimIndex, claim)
}

// templateChanged asks for reconciles of the pods that use a template.
func (p *provider) templateChanged(q controller.Queue, _, now *resourcev1.ResourceClaimTemplate) {
	if now != nil {
		p.add(q, templateIndex, now)
	}
}

// add asks for reconciles of the pods that an index has for an object.
func (p *provider) add(q controller.Queue, index string, obj metav1.Object) {
	pods, err := p.pods.Indexer().ByIndex(index, informer.KeyOf(obj.GetNamespace(), obj.GetName()))
	if err != nil {
		return // The indices are added before the first event.
	}
	for _, pod := range pods {
		p.podChanged(q, nil, pod)
	}
}

// needsWork reports whether a claim of a pod may have to be created or reserved.
func (p *provider) needsWork(pod *corev1.Pod) bool {
	if pod.DeletionTimestamp != nil {
		return false
	}
	for i := range pod.Spec.ResourceClaims {
		given := &pod.Spec.ResourceClaims[i]
		claimName, ours, err := dra.Name(pod, given)
		if err != nil {
			return true
		}
		if claimName == nil {
			continue
		}
		claim, found := p.claims.Indexer().GetByKey(informer.KeyOf(pod.Namespace, *claimName))
		switch {
		case !found && given.ResourceClaimTemplateName != nil:
			return true
		case !found: // The user creates it.
		case ours && dra.IsForPod(pod, claim, false) != nil: // Somebody else's claim is in the way.
		case pod.Spec.NodeName == "": // The scheduler reserves it.
		case needsReservation(pod, claim):
			return true
		}
	}
	return false
}

// needsReservation reports whether a claim has devices, but not for a pod.
func needsReservation(pod *corev1.Pod, claim *resourcev1.ResourceClaim) bool {
	return claim.Status.Allocation != nil && !dra.IsReservedForPod(pod, claim, false) && dra.CanBeReserved(claim)
}

// neverRuns reports whether the containers of a pod do not run, and never will.
func neverRuns(pod *corev1.Pod) bool {
	return podstate.Ended(pod) || pod.DeletionTimestamp != nil && pod.Spec.NodeName == ""
}
