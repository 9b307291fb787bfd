// Package persistentvolumebinder binds PersistentVolumeClaims to PersistentVolumes, asks provisioners for
// volumes that do not exist, and releases the volumes of claims that are gone (kubernetes,
// pkg/controller/volume/persistentvolume).
//
// Two queues share the work: claims look for volumes, and volumes follow their claims. A binding is four
// writes, of which each can be lost: the volume's claimRef and phase, then the claim's volumeName and
// phase. What a later reconcile finds half done it completes.
//
// Volumes come from provisioners outside this package, which Kubernetes calls external: a claim gets the
// annotation that names its provisioner.
package persistentvolumebinder

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/volume"

	"github.com/garboard/garboard/libs/client/events"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/reconcile"
	"github.com/garboard/garboard/services/controllers/internal/controller"
	"github.com/garboard/garboard/services/controllers/internal/podclaims"
)

const (
	name = "persistentvolume-binder-controller"
	// claimQueue and volumeQueue are Kubernetes' names of the queues, component that of the source of
	// Events.
	claimQueue, volumeQueue = "claims", "volumes"
	component               = "persistentvolume-controller"
	// patience bounds how long a claim, and those behind it, wait for the other caches.
	patience = 2 * time.Second
)

type (
	claim = *corev1.PersistentVolumeClaim
	pv    = *corev1.PersistentVolume
)

// binder reconciles claims and volumes.
type binder struct {
	claims  *controller.Objects[claim]
	volumes *controller.Objects[pv]
	classes informer.SharedInformer[*storagev1.StorageClass]
	pods    informer.SharedInformer[*corev1.Pod]
	events  *events.Recorder
}

// New declares the controller.
func New(d controller.Deps) *controller.Spec {
	b := &binder{
		claims: controller.For[claim](d), volumes: controller.For[pv](d),
		classes: informer.For[*storagev1.StorageClass](d.Informers), pods: informer.For[*corev1.Pod](d.Informers),
		events: d.Events(component),
	}
	return &controller.Spec{
		Name: name, Queue: claimQueue, Resource: "persistentvolumeclaims", Events: b.events, For: b.claims, Reconcile: b.reconcileClaim,
		// Two workers would often choose the same volume.
		Workers: 1,
		Watches: []controller.Watch{
			controller.Indexed(b.claims.SharedInformer, waitingFor, waits), podclaims.Index(b.pods),
			controller.On(b.volumes.SharedInformer, b.volumeChanged), controller.On(b.classes, b.classChanged), controller.On(b.pods, b.podChanged),
		},
		Beside: []*controller.Spec{{
			Name: name, Queue: volumeQueue, Resource: "persistentvolumes", Workers: 1, For: b.volumes, Reconcile: b.reconcileVolume,
			Watches: []controller.Watch{controller.On(b.claims.SharedInformer, claimChanged)},
		}},
	}
}

// waitingFor finds unbound claims by what they wait for: a volume or a class.
const waitingFor = "waiting for a volume"

// waits returns what an unbound claim waits for.
func waits(c claim) ([]string, error) {
	switch {
	case metav1.HasAnnotation(c.ObjectMeta, volume.AnnBindCompleted):
		return nil, nil
	case c.Spec.VolumeName != "":
		return []string{"volume " + c.Spec.VolumeName}, nil
	case !volume.PersistentVolumeClaimHasClass(c):
		// It gets the default class when there is one.
		return []string{"class ", "default class"}, nil
	}
	return []string{"class " + volume.GetPersistentVolumeClaimClass(c)}, nil
}

// volumeChanged asks for the reconciles of the claims that a volume concerns.
func (b *binder) volumeChanged(q controller.Queue, old, now pv) {
	for _, v := range []pv{old, now} {
		if v != nil && v.Spec.ClaimRef != nil {
			q.AddName(v.Spec.ClaimRef.Namespace, v.Spec.ClaimRef.Name)
		}
	}
	if now == nil {
		b.addWaiting(q, "volume "+old.Name)
		return
	}
	b.addWaiting(q, "volume "+now.Name)
	if now.Spec.ClaimRef == nil {
		b.addWaiting(q, "class "+volume.GetPersistentVolumeClass(now))
	}
}

// classChanged asks for the reconciles of the claims that wait for a class.
func (b *binder) classChanged(q controller.Queue, _, now *storagev1.StorageClass) {
	if now == nil {
		return
	}
	b.addWaiting(q, "class "+now.Name)
	if isDefault(now) {
		b.addWaiting(q, "default class")
	}
}

// podChanged asks for the reconciles of the claims of a pod that waits for a node, so that their Events
// name it.
func (b *binder) podChanged(q controller.Queue, old, now *corev1.Pod) {
	if old != nil || now == nil || now.Spec.NodeName != "" {
		return
	}
	for _, key := range podclaims.Keys(now) {
		if c, found := b.claims.Indexer().GetByKey(key); found && !metav1.HasAnnotation(c.ObjectMeta, volume.AnnBindCompleted) {
			q.Add(c)
		}
	}
}

func (b *binder) addWaiting(q controller.Queue, what string) {
	found, err := b.claims.Indexer().ByIndex(waitingFor, what)
	if err != nil {
		return // The index is added before the first event.
	}
	for _, c := range found {
		q.Add(c)
	}
}

// claimChanged asks for the reconciles of the volumes that a claim gets, leaves, or leaves behind.
func claimChanged(q controller.Queue, old, now claim) {
	var before, after string
	if old != nil {
		before = old.Spec.VolumeName
	}
	if now != nil {
		after = now.Spec.VolumeName
	}
	if before == after && now != nil && old != nil {
		return
	}
	for _, name := range []string{before, after} {
		if name != "" {
			q.AddName("", name)
		}
	}
}

func (b *binder) reconcileClaim(ctx context.Context, key controller.Key) (reconcile.Result, error) {
	c, found := b.claims.Get(key)
	if !found {
		return reconcile.Result{}, nil
	}
	if metav1.HasAnnotation(c.ObjectMeta, volume.AnnBindCompleted) {
		return reconcile.Result{}, b.bound(ctx, c)
	}
	return reconcile.Result{}, b.unbound(ctx, c)
}
