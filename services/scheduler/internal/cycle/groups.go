package cycle

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/services/scheduler/internal/placement"
)

// groupInformers follow the objects that say which pods belong together. Their changes need no
// handler: they affect scores only.
type groupInformers struct {
	services     informer.SharedInformer[*corev1.Service]
	controllers  informer.SharedInformer[*corev1.ReplicationController]
	replicaSets  informer.SharedInformer[*appsv1.ReplicaSet]
	statefulSets informer.SharedInformer[*appsv1.StatefulSet]
}

func newGroupInformers(factory *informer.Factory) groupInformers {
	return groupInformers{
		services:     informer.For[*corev1.Service](factory),
		controllers:  informer.For[*corev1.ReplicationController](factory),
		replicaSets:  informer.For[*appsv1.ReplicaSet](factory),
		statefulSets: informer.For[*appsv1.StatefulSet](factory),
	}
}

// synced returns the checkers of all informers.
func (g groupInformers) synced() []informer.DoneChecker {
	return []informer.DoneChecker{
		g.services.HasSyncedChecker(), g.controllers.HasSyncedChecker(), g.replicaSets.HasSyncedChecker(), g.statefulSets.HasSyncedChecker(),
	}
}

// placement returns access to the informers' objects.
func (g groupInformers) placement() placement.Groups {
	return placement.Groups{
		Services: func(namespace string) []*corev1.Service {
			// The namespace index always exists.
			services, _ := g.services.Indexer().ByIndex(informer.NamespaceIndex, namespace)
			return services
		},
		ReplicationController: func(namespace, name string) *corev1.ReplicationController {
			return stored(g.controllers, namespace+"/"+name)
		},
		ReplicaSet:  func(namespace, name string) *appsv1.ReplicaSet { return stored(g.replicaSets, namespace+"/"+name) },
		StatefulSet: func(namespace, name string) *appsv1.StatefulSet { return stored(g.statefulSets, namespace+"/"+name) },
	}
}
