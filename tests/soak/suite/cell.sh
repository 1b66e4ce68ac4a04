# Says which cores it was given, works a moment, reports.
grep Cpus_allowed_list /proc/self/status > "$1/held.txt"
sleep 0.4
echo '<testsuites><testsuite name="s"><testcase classname="c" name="t"/></testsuite></testsuites>' > "$1/junit.xml"
