package storageprotection

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/reconcile"
	"github.com/garboard/garboard/services/controllers/internal/controller"
	"github.com/garboard/garboard/services/controllers/internal/podclaims"
	"github.com/garboard/garboard/services/controllers/internal/podstate"
)

type claim = *corev1.PersistentVolumeClaim

const claimFinalizer = "kubernetes.io/pvc-protection"

type claims struct {
	claims    *controller.Objects[claim]
	pods      informer.SharedInformer[*corev1.Pod]
	podClient client.Resource[*corev1.Pod]
}

// NewClaims declares the controller of claims.
func NewClaims(d controller.Deps) *controller.Spec {
	r := &claims{
		claims: controller.For[claim](d), pods: informer.For[*corev1.Pod](d.Informers), podClient: client.Of[*corev1.Pod](d.Client),
	}
	return &controller.Spec{
		Name: "persistentvolumeclaim-protection-controller", Queue: "pvcprotection", Resource: "persistentvolumeclaims", Workers: 30,
		For: r.claims, Watches: []controller.Watch{podclaims.Index(r.pods), controller.On(r.pods, r.podChanged)}, Reconcile: r.reconcile,
	}
}

// podChanged asks for the reconciles of the claims of a pod that begins or ends to use them.
func (r *claims) podChanged(q controller.Queue, old, now *corev1.Pod) {
	if old != nil && now != nil && old.UID == now.UID && uses(old) == uses(now) {
		return
	}
	for _, pod := range []*corev1.Pod{old, now} {
		if pod == nil {
			continue
		}
		for _, key := range podclaims.Keys(pod) {
			if c, found := r.claims.Indexer().GetByKey(key); found {
				q.Add(c)
			}
		}
	}
}

// use is what of a pod's state matters to its claims.
type use struct{ placed, stopped, shutDown bool }

func uses(pod *corev1.Pod) use {
	return use{pod.Spec.NodeName != "", podstate.Stopped(pod), shutDown(pod)}
}

// shutDown reports whether the node is done with a pod, or the pod was deleted by force.
func shutDown(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp != nil && pod.DeletionGracePeriodSeconds != nil && *pod.DeletionGracePeriodSeconds == 0
}

func (r *claims) reconcile(ctx context.Context, key controller.Key) (reconcile.Result, error) {
	c, found := r.claims.Get(key)
	if !found {
		return reconcile.Result{}, nil
	}
	pods, err := podclaims.Users(r.pods, c)
	if err != nil {
		return reconcile.Result{}, err
	}
	if c.DeletionTimestamp == nil && c.Status.Phase == corev1.ClaimBound {
		referenced := slices.ContainsFunc(pods, func(pod *corev1.Pod) bool {
			return !podstate.Stopped(pod) && (podclaims.Names(pod, c) || podclaims.Owns(pod, c))
		})
		if err := r.setUnused(ctx, c, !referenced); err != nil {
			return reconcile.Result{}, err
		}
	}
	if c.DeletionTimestamp != nil && r.behind(c) {
		if pods, _, err = r.podClient.List(ctx, c.Namespace, metav1.ListOptions{}); err != nil {
			return reconcile.Result{}, fmt.Errorf("listing the pods that may use claim %s/%s: %w", c.Namespace, c.Name, err)
		}
	}
	err = finalize(ctx, r.claims.Client, c, claimFinalizer, func() (bool, error) {
		return slices.ContainsFunc(pods, func(pod *corev1.Pod) bool {
			return pod.Spec.NodeName != "" && (podclaims.Names(pod, c) || !shutDown(pod) && podclaims.Owns(pod, c))
		}), nil
	})
	if apierrors.IsNotFound(err) {
		return reconcile.Result{}, nil
	}
	return reconcile.Result{}, err
}

// behind reports whether the cache of pods may lack pods that got a node before a claim was deleted. Later
// ones do not matter: no node starts a pod with a claim that is being deleted. Kubernetes lists the pods
// of the namespace each time; here that is needed only while pods do not come over the bus.
func (r *claims) behind(c claim) bool {
	revision, err := strconv.ParseInt(c.ResourceVersion, 10, 64)
	return err == nil && r.pods.Revision() < revision
}

// setUnused writes the condition Unused of a claim if it differs.
func (r *claims) setUnused(ctx context.Context, c claim, unused bool) error {
	want := corev1.PersistentVolumeClaimCondition{
		Type: corev1.PersistentVolumeClaimUnused, Status: corev1.ConditionFalse, LastTransitionTime: metav1.Now(),
		Reason: "PodUsingPVC", Message: "A pod is currently referencing this PVC",
	}
	if unused {
		want.Status, want.Reason, want.Message = corev1.ConditionTrue, "NoPodsUsingPVC", "No pods are currently referencing this PVC"
	}
	at := slices.IndexFunc(c.Status.Conditions, func(has corev1.PersistentVolumeClaimCondition) bool { return has.Type == want.Type })
	if at >= 0 && (c.Status.Conditions[at].Status == corev1.ConditionTrue) == unused {
		return nil
	}
	next := c.DeepCopy()
	if at >= 0 {
		next.Status.Conditions[at] = want
	} else {
		next.Status.Conditions = append(next.Status.Conditions, want)
	}
	_, err := r.claims.Client.UpdateStatus(ctx, next, metav1.UpdateOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("writing the condition Unused of claim %s/%s: %w", c.Namespace, c.Name, err)
	}
	return nil
}
