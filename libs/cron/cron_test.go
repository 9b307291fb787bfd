package cron

import (
	"testing"
	"time"
)

func TestRefused(t *testing.T) {
	for spec, want := range map[string]string{
		"":                             "empty spec string",
		"* * * *":                      "expected exactly 5 fields, found 4: [* * * *]",
		"*/5 * * * * *":                "expected exactly 5 fields, found 6: [*/5 * * * * *]",
		"   ":                          "expected exactly 5 fields, found 0: []",
		"60 * * * *":                   "end of range (60) above maximum (59): 60",
		"* 24 * * *":                   "end of range (24) above maximum (23): 24",
		"* * 0 * *":                    "beginning of range (0) below minimum (1): 0",
		"* * 32 * *":                   "end of range (32) above maximum (31): 32",
		"* * * 13 *":                   "end of range (13) above maximum (12): 13",
		"* * * 0 *":                    "beginning of range (0) below minimum (1): 0",
		"* * * * 7":                    "end of range (7) above maximum (6): 7",
		"5-2 * * * *":                  "beginning of range (5) beyond end of range (2): 5-2",
		"1-2-3 * * * *":                "too many hyphens: 1-2-3",
		"*-5 * * * *":                  "too many hyphens: *-5",
		"1/2/3 * * * *":                "too many slashes: 1/2/3",
		"*/0 * * * *":                  "step of range should be a positive number: */0",
		"x * * * *":                    `failed to parse int from x: strconv.Atoi: parsing "x": invalid syntax`,
		"*/x * * * *":                  `failed to parse int from x: strconv.Atoi: parsing "x": invalid syntax`,
		"1-x * * * *":                  `failed to parse int from x: strconv.Atoi: parsing "x": invalid syntax`,
		"-5 * * * *":                   `failed to parse int from : strconv.Atoi: parsing "": invalid syntax`,
		"*/-5 * * * *":                 "negative number (-5) not allowed: -5",
		"* * * * monday":               `failed to parse int from monday: strconv.Atoi: parsing "monday": invalid syntax`,
		", * * * *":                    "no values in list: ,",
		"@often":                       "unrecognized descriptor: @often",
		"@every":                       "unrecognized descriptor: @every",
		"@every x":                     `failed to parse duration @every x: time: invalid duration "x"`,
		"TZ=Nowhere/Atall * * * * *":   "provided bad location Nowhere/Atall: unknown time zone Nowhere/Atall",
		"CRON_TZ=Etc/UTC":              "expected exactly 5 fields, found 0: []",
		"CRON_TZ=Etc/UTC 61 * * * *":   "end of range (61) above maximum (59): 61",
		"99999999999999999999 * * * *": `failed to parse int from 99999999999999999999: strconv.Atoi: parsing "99999999999999999999": value out of range`,
	} {
		if _, err := Parse(spec); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", spec, err, want)
		}
	}
}

func TestNext(t *testing.T) {
	const layout = "Mon 2006-01-02 15:04:05"
	for _, tc := range []struct {
		spec, zone, after string
		want              []string // nothing means never
	}{
		{"* * * * *", "UTC", "Tue 2030-01-01 12:00:30", []string{"Tue 2030-01-01 12:01:00", "Tue 2030-01-01 12:02:00"}},
		{"* * * * *", "UTC", "Tue 2030-01-01 12:01:00", []string{"Tue 2030-01-01 12:02:00"}},
		{"*/20 3 * * *", "UTC", "Tue 2030-01-01 12:00:00", []string{"Wed 2030-01-02 03:00:00", "Wed 2030-01-02 03:20:00", "Wed 2030-01-02 03:40:00", "Thu 2030-01-03 03:00:00"}},
		{"5/25 * * * *", "UTC", "Tue 2030-01-01 12:00:00", []string{"Tue 2030-01-01 12:05:00", "Tue 2030-01-01 12:30:00", "Tue 2030-01-01 12:55:00", "Tue 2030-01-01 13:05:00"}},
		{"1,,3-4 * * * *", "UTC", "Tue 2030-01-01 12:00:00", []string{"Tue 2030-01-01 12:01:00", "Tue 2030-01-01 12:03:00", "Tue 2030-01-01 12:04:00", "Tue 2030-01-01 13:01:00"}},
		{"0 0 * feb-MAR *", "UTC", "Thu 2030-02-28 00:00:00", []string{"Fri 2030-03-01 00:00:00"}},
		{"0 0 * * Mon,fri", "UTC", "Tue 2030-01-01 12:00:00", []string{"Fri 2030-01-04 00:00:00", "Mon 2030-01-07 00:00:00"}},
		{"0 0 13 * 5", "UTC", "Tue 2030-01-01 00:00:00", []string{"Fri 2030-01-04 00:00:00", "Fri 2030-01-11 00:00:00", "Sun 2030-01-13 00:00:00"}},
		{"0 0 ? * 5", "UTC", "Tue 2030-01-01 00:00:00", []string{"Fri 2030-01-04 00:00:00", "Fri 2030-01-11 00:00:00", "Fri 2030-01-18 00:00:00"}},
		{"0 0 */2 * 5", "UTC", "Tue 2030-01-01 00:00:00", []string{"Thu 2030-01-03 00:00:00", "Fri 2030-01-04 00:00:00", "Sat 2030-01-05 00:00:00"}},
		{"0 0 29 2 *", "UTC", "Sat 2098-03-01 00:00:00", []string{"Fri 2104-02-29 00:00:00"}},
		{"0 0 30 2 *", "UTC", "Tue 2030-01-01 00:00:00", nil},
		{"0 0 31 * *", "UTC", "Thu 2030-01-31 00:00:00", []string{"Sun 2030-03-31 00:00:00", "Fri 2030-05-31 00:00:00"}},
		{"@hourly", "UTC", "Tue 2030-01-01 12:00:30", []string{"Tue 2030-01-01 13:00:00"}},
		{"@midnight", "UTC", "Tue 2030-01-01 12:00:30", []string{"Wed 2030-01-02 00:00:00"}},
		{"@weekly", "UTC", "Tue 2030-01-01 12:00:30", []string{"Sun 2030-01-06 00:00:00"}},
		{"@monthly", "UTC", "Tue 2030-01-01 12:00:30", []string{"Fri 2030-02-01 00:00:00"}},
		{"@annually", "UTC", "Tue 2030-01-01 12:00:30", []string{"Wed 2031-01-01 00:00:00"}},
		{"@every 90s", "UTC", "Tue 2030-01-01 12:00:30", []string{"Tue 2030-01-01 12:02:00", "Tue 2030-01-01 12:03:30"}},
		{"@every 1ms", "UTC", "Tue 2030-01-01 12:00:30", []string{"Tue 2030-01-01 12:00:31"}},
		// New York skips 02:00 to 03:00 on March 10th and repeats 01:00 to 02:00 on November 3rd.
		{"30 2 * * *", "America/New_York", "Sat 2030-03-09 12:00:00", []string{"Mon 2030-03-11 02:30:00"}},
		{"30 1 * * *", "America/New_York", "Sun 2030-11-03 00:00:00", []string{"Sun 2030-11-03 01:30:00", "Sun 2030-11-03 01:30:00", "Mon 2030-11-04 01:30:00"}},
		{"0 * * * *", "America/New_York", "Sun 2030-03-10 01:00:00", []string{"Sun 2030-03-10 03:00:00"}},
		{"CRON_TZ=Asia/Tokyo 0 6 * * *", "UTC", "Tue 2030-01-01 12:00:00", []string{"Tue 2030-01-01 21:00:00", "Wed 2030-01-02 21:00:00"}},
		{"TZ=Asia/Kolkata 0 6 * * *", "UTC", "Tue 2030-01-01 12:00:00", []string{"Wed 2030-01-02 00:30:00"}},
		{"0 12 * * *", "Asia/Kolkata", "Tue 2030-01-01 12:00:00", []string{"Wed 2030-01-02 12:00:00"}},
		// Beirut's clock skips midnight on March 27th 2022.
		{"0 0 * * *", "Asia/Beirut", "Sat 2022-03-26 00:00:00", []string{"Mon 2022-03-28 00:00:00"}},
		{"0 1 27 3 *", "Asia/Beirut", "Sat 2022-03-26 00:00:00", []string{"Sun 2022-03-27 01:00:00"}},
		// Lord Howe's clock moves by half an hour.
		{"0 3 * * *", "Australia/Lord_Howe", "Sat 2030-10-05 12:00:00", []string{"Sun 2030-10-06 03:00:00"}},
		{"45 1 * * *", "Australia/Lord_Howe", "Sun 2030-04-07 00:00:00", []string{"Sun 2030-04-07 01:45:00", "Sun 2030-04-07 01:45:00", "Mon 2030-04-08 01:45:00"}},
	} {
		t.Run(tc.spec+" "+tc.after, func(t *testing.T) {
			schedule, err := Parse(tc.spec)
			if err != nil {
				t.Fatal(err)
			}
			zone, err := time.LoadLocation(tc.zone)
			if err != nil {
				t.Fatal(err)
			}
			at, err := time.ParseInLocation(layout, tc.after, zone)
			if err != nil {
				t.Fatal(err)
			}
			at = at.Add(5 * time.Nanosecond)
			if tc.want == nil {
				if next := schedule.Next(at); !next.IsZero() {
					t.Errorf("it is due on %s", next)
				}
				return
			}
			for _, want := range tc.want {
				at = schedule.Next(at)
				if got := at.Format(layout); got != want || at.Location() != zone || at.Nanosecond() != 0 {
					t.Fatalf("next is %s in %s, want %s", got, at.Location(), want)
				}
			}
		})
	}
	if next := (Schedule{}).Next(time.Unix(0, 0)); !next.IsZero() {
		t.Errorf("no schedule at all is due on %s", next)
	}
	if schedule, err := Parse("TZ=Etc/UTC @daily"); err != nil || schedule.Zone().String() != "Etc/UTC" {
		t.Errorf("the zone is %v, %v", schedule.Zone(), err)
	}
}

// FuzzParse holds for every schedule that is read: what is due is later than what it follows,
// on a whole second, and, of a schedule with fields, on a minute that the fields have.
func FuzzParse(f *testing.F) {
	for _, spec := range []string{"*/5 1-3,6 * jan,MAR ?", "@every 1h30m", "TZ=Asia/Tokyo 0 0 29 2 *", "CRON_TZ=x", "@daily"} {
		f.Add(spec, int64(1893456000))
	}
	f.Fuzz(func(t *testing.T, spec string, seconds int64) {
		schedule, err := Parse(spec)
		if err != nil {
			return
		}
		at := time.Unix(seconds%(1<<33), 7).UTC()
		for range 3 {
			next := schedule.Next(at)
			if next.IsZero() {
				return
			}
			if !next.After(at) || next.Nanosecond() != 0 {
				t.Fatalf("%q: after %s comes %s", spec, at, next)
			}
			local := next
			if schedule.Zone() != nil {
				local = next.In(schedule.Zone())
			}
			if schedule.every == 0 && (local.Second() != 0 || !schedule.minutes.has(local.Minute()) || !schedule.hours.has(local.Hour()) ||
				!schedule.months.has(int(local.Month())) || !schedule.dueOn(local)) {
				t.Fatalf("%q is due at %s", spec, local)
			}
			at = next
		}
	})
}
