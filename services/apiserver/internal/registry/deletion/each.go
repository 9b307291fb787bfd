package deletion

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Each deletes the objects of a list, one after the other, until an error. One that is already gone is not an error. A
// request whose time ends gets a Timeout that says how far it came.
func Each(ctx context.Context, list runtime.Object, remove func(metav1.Object) error) error {
	done := 0
	err := meta.EachListItem(list, func(item runtime.Object) error {
		obj, err := meta.Accessor(item)
		if err != nil {
			return apierrors.NewInternalError(err)
		}
		if err := remove(obj); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		done++
		return nil
	})
	if err != nil && ctx.Err() != nil {
		return apierrors.NewTimeoutError(fmt.Sprintf("the request's time ended when %d of %d objects were deleted; "+
			"send it again to delete the others, or delete fewer at a time with limit", done, meta.LenList(list)), 0)
	}
	return err
}
