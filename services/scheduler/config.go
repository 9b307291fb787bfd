package scheduler

import (
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/garboard/garboard/libs/election"
	"github.com/garboard/garboard/libs/service"
)

// Config configures one replica of the scheduler.
type Config struct {
	// Service is what all services have. Its API and Bus are required.
	Service service.Config
	// SchedulerName is the spec.schedulerName of the pods to schedule; "default-scheduler" when
	// empty.
	SchedulerName string
	// Election sets how fast another replica takes over from one that is gone. Unset fields take
	// Kubernetes' defaults.
	Election election.Timing
}

// complete sets defaults and returns everything that is wrong. It does no I/O.
func (c *Config) complete() error {
	if c.SchedulerName == "" {
		c.SchedulerName = corev1.DefaultSchedulerName
	}
	faults := []error{c.Service.Complete(), c.Service.Reachable()}
	if problems := validation.IsDNS1123Subdomain(c.SchedulerName); len(problems) > 0 {
		faults = append(faults, fmt.Errorf("the scheduler name %q is not valid: %s", c.SchedulerName, strings.Join(problems, "; ")))
	}
	if _, err := c.Election.Complete(); err != nil {
		faults = append(faults, err)
	}
	if err := errors.Join(faults...); err != nil {
		return fmt.Errorf("configuring the scheduler: %w", err)
	}
	return nil
}
