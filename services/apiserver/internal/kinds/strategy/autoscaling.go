package strategy

import (
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/conversion"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/defaults"
	validation "github.com/garboard/garboard/services/apiserver/internal/kinds/validation/autoscaling"
)

func horizontalPodAutoscaler() *kinds.Definition {
	type autoscaler = *autoscalingv2.HorizontalPodAutoscaler
	specStatus := specStatusOf(func(a autoscaler) (*autoscalingv2.HorizontalPodAutoscalerSpec, *autoscalingv2.HorizontalPodAutoscalerStatus) {
		return &a.Spec, &a.Status
	})
	return of[autoscaler]{
		Level:        kinds.Full,
		Default:      defaults.HorizontalPodAutoscaler,
		Create:       specStatus.begin,
		Validate:     validation.HorizontalPodAutoscaler,
		Update:       change[autoscaler]{Prepare: specStatus.keepStatus, Validate: validation.HorizontalPodAutoscalerUpdate},
		Subresources: map[string]change[autoscaler]{"status": {Prepare: specStatus.keepSpec, Validate: validation.HorizontalPodAutoscalerStatus}},
	}.strategy()
}

// horizontalPodAutoscalerV1 is the strategy of autoscaling/v1 autoscalers. They are converted to v2
// and checked by its rules, since most of their content is in annotations.
func horizontalPodAutoscalerV1() *kinds.Definition {
	type autoscaler = *autoscalingv1.HorizontalPodAutoscaler
	newer := horizontalPodAutoscaler()
	prepared := func(prepare func(obj, old scheme.Object)) func(a, old autoscaler) {
		return func(a, old autoscaler) {
			obj := autoscalerToV2(a)
			prepare(obj, autoscalerToV2(old))
			*a = *conversion.AutoscalerToV1(obj)
		}
	}
	checked := func(validate func(obj, old scheme.Object) field.ErrorList) func(a, old autoscaler) field.ErrorList {
		return func(a, old autoscaler) field.ErrorList { return validate(autoscalerToV2(a), autoscalerToV2(old)) }
	}
	s := of[autoscaler]{
		Level:   kinds.Full,
		Default: defaults.HorizontalPodAutoscalerV1,
		Create: func(a autoscaler) {
			obj := autoscalerToV2(a)
			newer.PrepareForCreate(obj)
			*a = *conversion.AutoscalerToV1(obj)
		},
		Validate: func(a autoscaler) field.ErrorList { return newer.Validate(autoscalerToV2(a)) },
		Update:   change[autoscaler]{Prepare: prepared(newer.Update.Prepare), Validate: checked(newer.Update.Validate)},
		Subresources: map[string]change[autoscaler]{"status": {
			Prepare: prepared(newer.Subresources["status"].Prepare), Validate: checked(newer.Subresources["status"].Validate),
		}},
	}.strategy()
	s.ToStored = func(obj scheme.Object) scheme.Object { return autoscalerToV2(obj.(autoscaler)) }
	s.FromStored = func(obj scheme.Object) scheme.Object {
		return conversion.AutoscalerToV1(obj.(*autoscalingv2.HorizontalPodAutoscaler))
	}
	return s
}

// autoscalerToV2 converts an autoscaler to v2 and sets its defaults.
func autoscalerToV2(a *autoscalingv1.HorizontalPodAutoscaler) *autoscalingv2.HorizontalPodAutoscaler {
	obj := conversion.AutoscalerToV2(a.DeepCopy())
	defaults.HorizontalPodAutoscaler(obj)
	return obj
}
