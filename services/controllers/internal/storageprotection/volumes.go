package storageprotection

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/reconcile"
	"github.com/garboard/garboard/services/controllers/internal/controller"
)

const (
	volumeFinalizer = "kubernetes.io/pv-protection"
	classFinalizer  = "kubernetes.io/vac-protection"
	// byClass finds claims and volumes by their attributes classes.
	byClass = "volume attributes class"
)

type pv = *corev1.PersistentVolume

// NewVolumes declares the controller of volumes.
func NewVolumes(d controller.Deps) *controller.Spec {
	volumes := controller.For[pv](d)
	return &controller.Spec{
		Name: "persistentvolume-protection-controller", Queue: "pvprotection", Resource: "persistentvolumes", For: volumes,
		Reconcile: func(ctx context.Context, key controller.Key) (reconcile.Result, error) {
			v, found := volumes.Get(key)
			if !found {
				return reconcile.Result{}, nil
			}
			err := finalize(ctx, volumes.Client, v, volumeFinalizer, func() (bool, error) { return v.Status.Phase == corev1.VolumeBound, nil })
			if apierrors.IsNotFound(err) {
				return reconcile.Result{}, nil
			}
			return reconcile.Result{}, err
		},
	}
}

type class = *storagev1.VolumeAttributesClass

type classes struct {
	classes *controller.Objects[class]
	claims  informer.SharedInformer[claim]
	volumes informer.SharedInformer[pv]
}

// NewClasses declares the controller of volume attributes classes.
func NewClasses(d controller.Deps) *controller.Spec {
	r := &classes{classes: controller.For[class](d), claims: informer.For[claim](d.Informers), volumes: informer.For[pv](d.Informers)}
	return &controller.Spec{
		Name: "volumeattributesclass-protection-controller", Queue: "vacprotection", Resource: "volumeattributesclasses",
		For: r.classes, Reconcile: r.reconcile,
		Watches: []controller.Watch{
			controller.Indexed(r.claims, byClass, func(c claim) ([]string, error) { return ofClaim(c), nil }),
			controller.Indexed(r.volumes, byClass, func(v pv) ([]string, error) { return names(v.Spec.VolumeAttributesClassName), nil }),
			controller.On(r.claims, func(q controller.Queue, old, _ claim) {
				if old != nil {
					add(q, ofClaim(old))
				}
			}),
			controller.On(r.volumes, func(q controller.Queue, old, _ pv) {
				if old != nil {
					add(q, names(old.Spec.VolumeAttributesClassName))
				}
			}),
		},
	}
}

// add asks for the reconciles of classes that an object has used.
func add(q controller.Queue, classes []string) {
	for _, name := range classes {
		q.AddName("", name)
	}
}

// names returns a name, if it is set.
func names(name *string) []string {
	if name == nil || *name == "" {
		return nil
	}
	return []string{*name}
}

// ofClaim returns the attributes classes of a claim: the wanted, the present, and that of a change under
// way.
func ofClaim(c claim) []string {
	found := append(names(c.Spec.VolumeAttributesClassName), names(c.Status.CurrentVolumeAttributesClassName)...)
	if change := c.Status.ModifyVolumeStatus; change != nil {
		found = append(found, names(&change.TargetVolumeAttributesClassName)...)
	}
	return found
}

func (r *classes) reconcile(ctx context.Context, key controller.Key) (reconcile.Result, error) {
	of, found := r.classes.Get(key)
	if !found {
		return reconcile.Result{}, nil
	}
	err := finalize(ctx, r.classes.Client, of, classFinalizer, func() (bool, error) {
		volumes, err := r.volumes.Indexer().ByIndex(byClass, of.Name)
		if err != nil {
			return false, fmt.Errorf("finding the volumes of the attributes class %s: %w", of.Name, err)
		}
		claims, err := r.claims.Indexer().ByIndex(byClass, of.Name)
		if err != nil {
			return false, fmt.Errorf("finding the claims of the attributes class %s: %w", of.Name, err)
		}
		return len(volumes)+len(claims) > 0, nil
	})
	if apierrors.IsNotFound(err) {
		return reconcile.Result{}, nil
	}
	return reconcile.Result{}, err
}
