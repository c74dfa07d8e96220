// The statuses of runs and steps: icon and word, the same as windmill_site/templatetags/ui.py.
export const STATUS = {
  success: ["circle-check", "Success"],
  failure: ["circle-x", "Failed"],
  running: ["loader", "Running"],
  queued: ["circle-dashed", "Queued"],
  scheduled: ["calendar-clock", "Scheduled"],
  suspended: ["hand", "Waiting"],
  skipped: ["circle-slash", "Skipped"],
  canceled: ["square", "Canceled"],
  pending: ["circle-dashed", "Not started"], // a step of a flow whose turn has not come
};
export const statusWord = (status) => STATUS[status]?.[1] ?? "Not started";
export const statusIcon = (status) => STATUS[status]?.[0] ?? "circle-dashed";
