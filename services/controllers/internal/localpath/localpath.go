// Package localpath provisions volumes that are folders of nodes. A claim whose class names this
// provisioner, and for whose pod the scheduler has selected a node, gets a PersistentVolume on that node;
// package localvolume tells what the two sides agree on. Events, annotations, names and the finalizer's
// handling are those of Kubernetes' external provisioners (sig-storage-lib-external-provisioner).
//
// Two queues share the work: claims get volumes, and volumes that are released go. The controller also
// creates the default StorageClass.
package localpath

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/client/events"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/localvolume"
	"github.com/garboard/garboard/services/controllers/internal/controller"
)

const (
	name = "local-path-provisioner"
	// claimQueue and volumeQueue are the names that external provisioners give their queues.
	claimQueue, volumeQueue = "local_path_claims", "local_path_volumes"
	// workers is how many claims, and how many volumes, are reconciled at a time.
	workers = 4
)

type (
	claim = *corev1.PersistentVolumeClaim
	pv    = *corev1.PersistentVolume
	class = *storagev1.StorageClass
)

// provisioner reconciles claims and volumes.
type provisioner struct {
	claims  *controller.Objects[claim]
	volumes *controller.Objects[pv]
	classes informer.SharedInformer[class]
	nodes   informer.SharedInformer[*corev1.Node]
	// nodesNow reads nodes that must not be stale.
	nodesNow client.Resource[*corev1.Node]
	events   *events.Recorder
	metrics  *metrics
}

// New declares the controller. At the beginning of each term it creates the StorageClass with the given
// name if there is none; it creates none if the name is empty.
func New(d controller.Deps, className string) *controller.Spec {
	p := &provisioner{
		claims: controller.For[claim](d), volumes: controller.For[pv](d), classes: informer.For[class](d.Informers),
		nodes: informer.For[*corev1.Node](d.Informers), nodesNow: client.Of[*corev1.Node](d.Client),
		events: d.Events(localvolume.Provisioner), metrics: newMetrics(d.Registerer),
	}
	spec := &controller.Spec{
		Name: name, Queue: claimQueue, Resource: "persistentvolumeclaims", Workers: workers, Events: p.events, For: p.claims, Reconcile: p.reconcileClaim,
		Watches: []controller.Watch{
			controller.Indexed(p.claims.SharedInformer, byProvisioner, waiting), controller.Reads(p.volumes.SharedInformer),
			controller.On(p.classes, p.classChanged), controller.On(p.nodes, p.nodeForClaims),
		},
		Beside: []*controller.Spec{{
			Name: name, Queue: volumeQueue, Resource: "persistentvolumes", Workers: workers, For: p.volumes, Reconcile: p.reconcileVolume,
			Watches: []controller.Watch{controller.On(p.nodes, p.nodeForVolumes), controller.Indexed(p.volumes.SharedInformer, byHost, hostOf)},
		}},
	}
	p.claims.Wanted = wanted
	if className != "" {
		classes := client.Of[class](d.Client)
		spec.Also = append(spec.Also, func(ctx context.Context) error { return provideClass(ctx, classes, className, d.Logger) })
	}
	return spec
}

const (
	// byProvisioner finds the claims that wait for this provisioner; byHost the volumes that wait for a
	// node, by its host name.
	byProvisioner, byHost = "waits for local-path", "local-path volumes that go, by host"
)

// waiting is the index function of byProvisioner.
func waiting(c claim) ([]string, error) {
	if wanted(c) {
		return []string{""}, nil
	}
	return nil, nil
}

// hostOf is the index function of byHost.
func hostOf(v pv) ([]string, error) {
	if host, ok := localvolume.HostOf(v); ok && localvolume.Removable(v) {
		return []string{host}, nil
	}
	return nil, nil
}

// classChanged asks for the reconciles of the claims that wait for a class.
func (p *provisioner) classChanged(q controller.Queue, old, now class) {
	if now == nil || old != nil && old.ResourceVersion == now.ResourceVersion {
		return
	}
	if now.Provisioner == localvolume.Provisioner {
		p.metrics.serves(now.Name)
	}
	p.addWaiting(q, func(c claim) bool { return c.Spec.StorageClassName != nil && *c.Spec.StorageClassName == now.Name })
}

// nodeForClaims asks for the reconciles of the claims that wait for a node that now has a folder.
func (p *provisioner) nodeForClaims(q controller.Queue, old, now *corev1.Node) {
	if now == nil || old != nil && old.Annotations[localvolume.NodeAnnotation] == now.Annotations[localvolume.NodeAnnotation] {
		return
	}
	p.addWaiting(q, func(c claim) bool { return selectedNode(c) == now.Name })
}

func (p *provisioner) addWaiting(q controller.Queue, concerns func(claim) bool) {
	found, err := p.claims.Indexer().ByIndex(byProvisioner, "")
	if err != nil {
		return // The index is added before the first event.
	}
	for _, c := range found {
		if concerns(c) {
			q.Add(c)
		}
	}
}

// nodeForVolumes asks for the reconciles of the volumes that wait for a node to remove their folders.
func (p *provisioner) nodeForVolumes(q controller.Queue, old, now *corev1.Node) {
	changed := now
	switch {
	case now == nil:
		changed = old
	case old != nil && slices.Equal(old.Status.VolumesInUse, now.Status.VolumesInUse):
		return
	}
	found, err := p.volumes.Indexer().ByIndex(byHost, changed.Name)
	if err != nil {
		return // The index is added before the first event.
	}
	for _, v := range found {
		q.Add(v)
	}
}
