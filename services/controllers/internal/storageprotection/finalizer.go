package storageprotection

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/scheme"
)

// finalize adds a finalizer to an object that is not being deleted, and removes it from one that is when
// used says that nothing uses it.
func finalize[T scheme.Object](ctx context.Context, of client.Resource[T], obj T, finalizer string, used func() (bool, error)) error {
	has := slices.Contains(obj.GetFinalizers(), finalizer)
	deleting := obj.GetDeletionTimestamp() != nil
	if has != deleting {
		return nil
	}
	finalizers := slices.Clone(obj.GetFinalizers())
	if deleting {
		if in, err := used(); in || err != nil {
			return err
		}
		finalizers = slices.DeleteFunc(finalizers, func(f string) bool { return f == finalizer })
	} else {
		finalizers = append(finalizers, finalizer)
	}
	next, ok := obj.DeepCopyObject().(T)
	if !ok {
		return fmt.Errorf("copying %s %s/%s: it is of another type", of.Kind().Kind, obj.GetNamespace(), obj.GetName())
	}
	next.SetFinalizers(finalizers)
	if _, err := of.Update(ctx, next, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("writing the finalizers of %s %s/%s: %w", of.Kind().Kind, obj.GetNamespace(), obj.GetName(), err)
	}
	return nil
}
