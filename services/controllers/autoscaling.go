package controllers

import (
	"github.com/garboard/garboard/services/controllers/internal/controller"
	"github.com/garboard/garboard/services/controllers/internal/horizontalpodautoscaler"
	"github.com/garboard/garboard/services/controllers/internal/metricsapi"
)

// Autoscaling are the settings of the controller of HorizontalPodAutoscalers.
type Autoscaling = horizontalpodautoscaler.Options

// MetricsServer names a server of metrics that is not behind the plane's API.
type MetricsServer = metricsapi.Options

// DefaultAutoscaling returns Kubernetes' settings.
func DefaultAutoscaling() Autoscaling { return horizontalpodautoscaler.DefaultOptions() }

// autoscaler returns the controller of HorizontalPodAutoscalers.
func (s *Service) autoscaler(d controller.Deps) (*controller.Spec, error) {
	metrics, err := metricsapi.New(s.cfg.Service.API, s.cfg.MetricsServer, horizontalpodautoscaler.Resource(d.Client.Table()))
	if err != nil {
		return nil, err
	}
	if s.definitions == nil { // A nil pointer is no nil interface.
		return horizontalpodautoscaler.New(d, nil, metrics, s.cfg.Autoscaling), nil
	}
	return horizontalpodautoscaler.New(d, s.definitions, metrics, s.cfg.Autoscaling), nil
}
