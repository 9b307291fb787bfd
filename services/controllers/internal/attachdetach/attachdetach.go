package attachdetach

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/garboard/garboard/libs/client/events"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/reconcile"
	"github.com/garboard/garboard/services/controllers/internal/controller"
	"github.com/garboard/garboard/services/controllers/internal/podclaims"
)

const (
	name      = "persistentvolume-attach-detach-controller"
	component = "attachdetach-controller"
	workers   = 10

	// operationTimeout is how long an attacher has for one volume.
	operationTimeout = 2 * time.Minute
	// maxUnmountWait is how long a node that is not ready has to unmount a volume.
	maxUnmountWait = 6 * time.Minute
	// managed is the annotation of a node whose volumes this controller attaches.
	managed = "volumes.kubernetes.io/controller-managed-attach-detach"
)

// DefaultSyncPeriod is Kubernetes' own.
const DefaultSyncPeriod = time.Minute

// Options are those of kube-controller-manager.
type Options struct {
	// SyncPeriod is how often attached volumes are compared with their VolumeAttachments
	// (--attach-detach-reconcile-sync-period).
	SyncPeriod time.Duration
	// DisableSync means that they are not (--disable-attach-detach-reconcile-sync).
	DisableSync bool
	// DisableForceDetach means that a volume is never detached from a node that does not unmount it, unless
	// the node has the taint out-of-service (--disable-force-detach-on-timeout).
	DisableForceDetach bool
}

// Check returns an error if an option is invalid.
func (o Options) Check() error {
	if o.SyncPeriod < time.Second {
		return fmt.Errorf("--attach-detach-reconcile-sync-period is %v, must be at least one second", o.SyncPeriod)
	}
	return nil
}

type (
	pv    = *corev1.PersistentVolume
	claim = *corev1.PersistentVolumeClaim
)

type reconciler struct {
	options     Options
	attachments *controller.Objects[*storagev1.VolumeAttachment]
	nodes       *controller.Objects[*corev1.Node]
	pods        informer.SharedInformer[*corev1.Pod]
	claims      informer.SharedInformer[claim]
	volumes     informer.SharedInformer[pv]
	drivers     informer.SharedInformer[*storagev1.CSIDriver]
	events      *events.Recorder
	logger      *slog.Logger
	metrics     *metrics

	mu sync.Mutex
	// state is that of the term.
	state *state
}

// New declares the controller.
func New(d controller.Deps, options Options) *controller.Spec {
	r := &reconciler{
		options:     options,
		attachments: controller.For[*storagev1.VolumeAttachment](d), nodes: controller.For[*corev1.Node](d),
		pods: informer.For[*corev1.Pod](d.Informers), claims: informer.For[claim](d.Informers),
		volumes: informer.For[pv](d.Informers), drivers: informer.For[*storagev1.CSIDriver](d.Informers),
		events: d.Events(component), logger: d.Logger, state: newState(controller.Queue{}),
	}
	r.metrics = newMetrics(d.Registerer, r)
	r.attachments.Handle = r.attachmentChanged
	return &controller.Spec{
		Name: name, Queue: "attachdetach", Resource: "volumeattachments", Workers: workers, Events: r.events,
		For: r.attachments,
		Watches: []controller.Watch{
			controller.Indexed(r.volumes, byName, func(v pv) ([]string, error) { return namesOf(ofVolume(v)), nil }),
			controller.Indexed(r.pods, inlineByName, func(pod *corev1.Pod) ([]string, error) { return inlineNames(pod), nil }),
			podclaims.Index(r.pods), podsByNode(r.pods),
			controller.On(r.nodes.SharedInformer, r.nodeChanged), controller.On(r.pods, r.podChanged), controller.On(r.claims, r.claimChanged),
			controller.On(r.volumes, r.volumeChanged), controller.On(r.drivers, r.driverChanged),
		},
		Reconcile: r.reconcile,
		Begin: func(q controller.Queue) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.state = newState(q)
		},
		Also: []func(context.Context) error{r.sync},
	}
}

// nodeKeys is the namespace of the keys of nodes. Those of volumes have none.
const nodeKeys = "nodes"

func volumeKey(name corev1.UniqueVolumeName) controller.Key {
	return controller.Key{Name: string(name)}
}

func nodeKey(name string) controller.Key {
	return controller.Key{Namespace: nodeKeys, Name: name}
}

func (r *reconciler) reconcile(ctx context.Context, key controller.Key) (reconcile.Result, error) {
	r.adopt()
	if key.Namespace == nodeKeys {
		return reconcile.Result{}, r.writeNode(ctx, key.Name)
	}
	return r.reconcileVolume(ctx, corev1.UniqueVolumeName(key.Name))
}

// sync asks, once in a period, for a comparison of what counts as attached with the VolumeAttachments.
func (r *reconciler) sync(ctx context.Context) error {
	if r.options.DisableSync {
		<-ctx.Done()
		return nil
	}
	tick := time.NewTicker(r.options.SyncPeriod)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			r.mu.Lock()
			s := r.state
			for _, v := range s.volumes {
				for _, a := range v.nodes {
					a.verify = a.verify || a.state == attached
				}
				s.q.AddKey(volumeKey(v.name))
			}
			for name, node := range s.nodes {
				if len(node.on) > 0 {
					s.q.AddKey(nodeKey(name))
				}
			}
			r.mu.Unlock()
		}
	}
}
