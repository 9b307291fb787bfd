package systemobjects

import (
	"context"
	"maps"
	"time"

	"golang.org/x/time/rate"
)

// The ConfigMap with the day since which the use of tokens in Secrets is tracked, for the controller that
// removes unused ones. The names are Kubernetes'.
const (
	trackingName = "kube-apiserver-legacy-service-account-token-tracking"
	trackingKey  = "since"
	// trackingEvery is the minimum time between two creations, so that servers that keep it and
	// servers that delete it do not race. Kubernetes' value.
	trackingEvery = 30 * time.Minute
)

// publishTracking creates the ConfigMap, and repairs one without a valid day.
func (o *Objects) publishTracking(ctx context.Context) error {
	var creation *rate.Reservation
	err := o.keepConfigMap(ctx, trackingName, func(data map[string]string, exists bool) (map[string]string, error) {
		if _, err := time.Parse(time.DateOnly, data[trackingKey]); err == nil {
			return data, nil
		}
		now := time.Now()
		if !exists {
			creation = o.tracking.ReserveN(now, 1)
			if creation.DelayFrom(now) > 0 {
				creation.CancelAt(now)
				return data, nil
			}
		}
		repaired := map[string]string{}
		maps.Copy(repaired, data)
		repaired[trackingKey] = now.UTC().Format(time.DateOnly)
		return repaired, nil
	})
	if err != nil && creation != nil {
		creation.Cancel()
	}
	return err
}
